"""The certificates that a client trusts, and the one it presents."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from resile.kube.errors import ApiUnreachable, ConfigError
from tests.local.wire.certificates import Certificate, make_certificate
from tests.unit.kube.listener import ask, listening, written


@pytest.fixture
def server(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path / "server")


@pytest.fixture
def client(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path / "client")


def serving(server: Certificate, *, client: Certificate | None = None) -> ssl.SSLContext:
    """A server's settings; ``client``: it requires this client certificate."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server.certificate, server.key)
    if client is not None:
        tls.load_verify_locations(client.certificate)
        tls.verify_mode = ssl.CERT_REQUIRED
    return tls


def data(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


async def test_a_server_that_nobody_vouches_for_is_not_trusted(
    tmp_path: Path, server: Certificate
) -> None:
    async with listening(serving(server)) as listener:
        with pytest.raises(ApiUnreachable, match=r"its certificate is not trusted: self.signed"):
            await ask(written(tmp_path, listener.url, user={"token": "secret"}))
        assert listener.heads == []


async def test_it_is_if_nobody_is_to_look(tmp_path: Path, server: Certificate) -> None:
    async with listening(serving(server)) as listener:
        cluster = {"insecure-skip-tls-verify": True}
        await ask(written(tmp_path, listener.url, user={}, cluster=cluster))


@pytest.mark.parametrize("inline", [True, False])
async def test_the_kubeconfigs_authority_and_certificate_count(
    tmp_path: Path, server: Certificate, client: Certificate, inline: bool
) -> None:
    authority: dict[str, Any] = {"certificate-authority": "server/cert.pem"}
    user = {"client-certificate": "client/cert.pem", "client-key": "client/key.pem"}
    if inline:
        authority = {"certificate-authority-data": data(server.certificate)}
        user = {"client-certificate-data": data(client.certificate)}
        user["client-key-data"] = data(client.key)
    async with listening(serving(server, client=client)) as listener:
        await ask(written(tmp_path, listener.url, user=user, cluster=authority))
        with pytest.raises(ApiUnreachable):
            await ask(written(tmp_path, listener.url, user={}, cluster=authority))
    assert len(listener.heads) == 1


async def test_data_goes_before_a_file(tmp_path: Path, server: Certificate) -> None:
    cluster = {"certificate-authority": "no-such-file"}
    cluster["certificate-authority-data"] = data(server.certificate)
    async with listening(serving(server)) as listener:
        await ask(written(tmp_path, listener.url, user={}, cluster=cluster))


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ({"client-certificate": "no", "client-key": "k"}, "'client-certificate' .*/no: No such"),
        (
            {"client-certificate-data": "eA==", "client-key-data": "eA=="},
            "the credentials of context 'one' cannot be used",
        ),
        (
            {"client-certificate-data": "%", "client-key-data": "%"},
            "the credentials of context 'one' cannot be used",
        ),
    ],
)
async def test_a_certificate_that_is_none_is_a_mistake(
    tmp_path: Path, user: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        await ask(written(tmp_path, "https://127.0.0.1:1", user=user))
