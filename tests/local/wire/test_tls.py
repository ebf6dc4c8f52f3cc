"""TLS when a certificate is given; mismatched settings are reported."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from resile.wire.auth import client_tls
from resile.wire.client import Access, connect
from resile.wire.errors import RefusedByPeer, Unreachable
from tests.local.wire.certificates import Certificate, make_certificate
from tests.local.wire.masters import TOKEN, MasterProcess, resile, running_master
from tests.local.wire.pretend import honest_agent


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def tls_master(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MasterProcess]:
    flags = ["--tls-cert", str(certificate.certificate), "--tls-key", str(certificate.key)]
    folder = tmp_path_factory.mktemp("tls")
    with running_master(folder, "--nnodes", "1:4", *flags) as master:
        yield master
        assert master.alive


def trusting(master: MasterProcess, certificate: Certificate) -> Access:
    return Access(master.endpoint, TOKEN, client_tls(str(certificate.certificate)))


async def test_an_agent_that_trusts_the_certificate_is_served(
    tls_master: MasterProcess, certificate: Certificate
) -> None:
    async with honest_agent(trusting(tls_master, certificate)) as agent:
        await agent.trains()


async def test_tls_does_not_replace_the_token(
    tls_master: MasterProcess, certificate: Certificate
) -> None:
    access = trusting(tls_master, certificate)
    with pytest.raises(RefusedByPeer, match="refused the token"):
        await connect(Access(access.endpoint, "not-the-token-of-this-job", access.tls))


async def test_a_client_that_does_not_trust_the_certificate_goes(
    tls_master: MasterProcess, tmp_path: Path
) -> None:
    other = make_certificate(tmp_path)
    with pytest.raises(RefusedByPeer, match=r"certificate .* is not trusted: .*--tls-ca") as error:
        await connect(trusting(tls_master, other))
    assert error.value.final


@pytest.mark.parametrize("fault", ["another address", "expired"])
async def test_a_certificate_of_another_place_or_time_is_not_trusted(
    tmp_path: Path, fault: str
) -> None:
    address = "192.0.2.9" if fault == "another address" else "127.0.0.1"
    wrong = make_certificate(tmp_path / "c", address=address, expired=fault == "expired")
    flags = ["--tls-cert", str(wrong.certificate), "--tls-key", str(wrong.key)]
    with running_master(tmp_path / "m", *flags) as master:
        with pytest.raises(RefusedByPeer, match="is not trusted") as error:
            await connect(trusting(master, wrong))
        assert error.value.final


async def test_a_plain_client_is_told_that_tls_may_be_wanted(tls_master: MasterProcess) -> None:
    with pytest.raises(Unreachable, match="if it uses TLS, give --tls-ca"):
        await connect(Access(tls_master.endpoint, TOKEN))


async def test_a_tls_client_is_told_that_the_master_has_none(
    master: MasterProcess, certificate: Certificate
) -> None:
    with pytest.raises(RefusedByPeer, match="does not use TLS") as error:
        await connect(trusting(master, certificate))
    assert error.value.final


def test_resile_run_takes_part_over_tls(certificate: Certificate, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('trained')")
    flags = ["--tls-cert", str(certificate.certificate), "--tls-key", str(certificate.key)]
    with running_master(tmp_path, "--job", "none", *flags) as master:
        done = resile(
            tmp_path,
            *("run", "--rdzv-endpoint", str(master.endpoint), "--preload", "none"),
            *("--tls-ca", str(certificate.certificate), str(script)),
            RESILE_TOKEN=TOKEN,
        )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout


def test_resile_run_without_trust_says_so_in_one_line(
    tls_master: MasterProcess, tmp_path: Path
) -> None:
    script = tmp_path / "never.py"
    script.write_text("raise SystemExit('must not run')")
    other = make_certificate(tmp_path / "other")
    done = resile(
        tmp_path,
        *("run", "--rdzv-endpoint", str(tls_master.endpoint), "--preload", "none"),
        *("--tls-ca", str(other.certificate), str(script)),
        RESILE_TOKEN=TOKEN,
    )
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "error" in line]
    assert "is not trusted" in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("fault", ["missing", "no PEM", "another key", "locked", "key alone"])
def test_a_certificate_that_cannot_be_used_is_named(
    certificate: Certificate, tmp_path: Path, fault: str
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("this is no certificate\n")
    other = make_certificate(tmp_path / "other")
    cert, key = str(certificate.certificate), str(certificate.key)
    flags, words = {
        "missing": (["--tls-cert", "/no/such.pem"], ["/no/such.pem", "No such file"]),
        "no PEM": (["--tls-cert", str(broken)], [str(broken), "PEM"]),
        "another key": (["--tls-cert", cert, "--tls-key", str(other.key)], ["does not belong"]),
        "locked": (["--tls-cert", cert, "--tls-key", str(certificate.locked_key)], ["encrypted"]),
        "key alone": (["--tls-key", key], ["--tls-cert"]),
    }[fault]
    done = resile(tmp_path, "master", "--endpoint", "127.0.0.1:0", *flags, RESILE_TOKEN=TOKEN)
    assert done.returncode == 2
    line, _ = done.stderr.splitlines()
    for word in words:
        assert word in line


async def test_handshakes_that_say_nothing_keep_no_agent_out(
    certificate: Certificate, tmp_path: Path
) -> None:
    """More of them than the master has file descriptors."""
    flags = ["--tls-cert", str(certificate.certificate), "--tls-key", str(certificate.key)]
    with (
        running_master(tmp_path, "--nnodes", "1:4", *flags, descriptors=256) as master,
        ExitStack() as silent,
    ):
        host, port = master.endpoint.host, master.endpoint.port
        for _ in range(300):
            silent.enter_context(socket.create_connection((host, port), timeout=30))
        async with honest_agent(trusting(master, certificate)) as agent:
            await asyncio.wait_for(agent.trains(), 20)


async def test_a_handshake_that_does_not_end_is_ended(
    tls_master: MasterProcess,
) -> None:
    with socket.create_connection(
        (tls_master.endpoint.host, tls_master.endpoint.port), timeout=30
    ) as connection:
        connection.sendall(b"\x16\x03")
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
