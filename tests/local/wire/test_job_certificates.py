"""A master that serves TLS with a certificate made for its job: who trusts it, and who does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from resile.operator.build.master import JobSecret
from resile.operator.certificates import issue_certificate
from resile.wire.auth import AuthError, client_tls
from resile.wire.client import Access, connect
from resile.wire.endpoint import Endpoint
from resile.wire.errors import UnprovenPeer
from resile.wire.http_client import MasterHttpClient
from tests.local.wire.masters import TOKEN, MasterProcess, resile, running_master


def new_secret() -> JobSecret:
    issued = issue_certificate(("localhost", "digits-master.team.svc"))
    return JobSecret(TOKEN, issued.authority, issued.certificate, issued.key)


@pytest.fixture(scope="module")
def secret() -> JobSecret:
    return new_secret()


@pytest.fixture(scope="module")
def master(secret: JobSecret, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MasterProcess]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_text(secret.certificate)
    key.write_text(secret.key)
    flags = ("--nnodes", "1", "--tls-cert", str(certificate), "--tls-key", str(key))
    with running_master(folder, *flags) as master:
        yield master


async def test_the_operator_reaches_it_at_any_address(
    master: MasterProcess, secret: JobSecret
) -> None:
    async with aiohttp.ClientSession() as session:
        client = MasterHttpClient(session, Access(master.endpoint, TOKEN, secret.client_context()))
        assert (await client.status()).phase


async def test_the_certificate_of_another_job_is_not_trusted(master: MasterProcess) -> None:
    async with aiohttp.ClientSession() as session:
        other = Access(master.endpoint, TOKEN, new_secret().client_context())
        with pytest.raises(UnprovenPeer, match=r"certificate of the master .* is not trusted"):
            await MasterHttpClient(session, other).status()


async def test_an_agent_trusts_the_text_it_is_given_for_the_names_in_the_certificate(
    master: MasterProcess, secret: JobSecret
) -> None:
    tls = client_tls(secret.authority)
    named = Endpoint("localhost", master.endpoint.port)
    connection = await connect(Access(named, TOKEN, tls))
    await connection.close()
    with pytest.raises(UnprovenPeer, match="is not trusted"):
        await connect(Access(master.endpoint, TOKEN, tls))


def test_an_agent_finds_the_text_in_its_environment(
    master: MasterProcess, secret: JobSecret, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('trained')\n")
    endpoint = f"localhost:{master.endpoint.port}"
    done = resile(
        tmp_path,
        *("run", "--rdzv-endpoint", endpoint, "--nnodes", "1", "--preload", "none", str(script)),
        RESILE_TOKEN=TOKEN,
        RESILE_MASTER_CA=secret.authority,
    )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout


def test_text_that_is_no_certificate_is_named() -> None:
    with pytest.raises(AuthError, match=r"\$RESILE_MASTER_CA cannot be used"):
        client_tls("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")


async def test_who_speaks_no_tls_is_told_so(master: MasterProcess) -> None:
    with pytest.raises(Exception, match="TLS"):
        await asyncio.wait_for(connect(Access(master.endpoint, TOKEN)), 30)
