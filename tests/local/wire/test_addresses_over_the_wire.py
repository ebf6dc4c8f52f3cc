"""Addresses of a job's nodes as sent by its master, with and without TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import resile
from resile.job.addresses import Addresses, NodeAddress
from resile.job.elasticity import Elasticity
from resile.operator.build.master import JobSecret
from resile.operator.certificates import issue_certificate
from resile.system.loop_thread import run_in_thread
from resile.train.addresses import NoAddresses
from resile.wire.auth import client_tls
from resile.wire.client import Access
from resile.wire.directive import Directive
from resile.wire.endpoint import Endpoint
from resile.wire.errors import RefusedByPeer
from resile.wire.http_client import MasterHttpClient, ask_addresses, master_session
from tests.local.wire.masters import TOKEN, MasterProcess, running_master

ADDRESSES = Addresses(
    version=1,
    job="ctr",
    roles={"ps": (NodeAddress(rank=0, host="127.0.0.1", ports={"rpc": 7000}),)},
)
DIRECTIVE = Directive(elasticity=Elasticity(), addresses=ADDRESSES)


async def direct(access: Access) -> None:
    async with master_session() as session:
        await MasterHttpClient(session, access).direct(DIRECTIVE)


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def secret(request: pytest.FixtureRequest) -> JobSecret:
    if not request.param:
        return JobSecret(TOKEN)
    issued = issue_certificate(("localhost",))
    return JobSecret(TOKEN, issued.authority, issued.certificate, issued.key)


@pytest.fixture
def master(secret: JobSecret, tmp_path: Path) -> Iterator[MasterProcess]:
    flags = ["--nnodes", "1"]
    for flag, text in (("--tls-cert", secret.certificate), ("--tls-key", secret.key)):
        if text:
            file = tmp_path / flag
            file.write_text(text)
            flags += [flag, str(file)]
    with running_master(tmp_path, *flags) as master:
        yield master


def test_a_program_without_a_file_asks_its_master(
    master: MasterProcess, secret: JobSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RESILE_ADDRESSES", "RESILE_ADDRESSES_FILE", "RESILE_ROLE"):
        monkeypatch.delenv(name, raising=False)
    endpoint = Endpoint("localhost", master.endpoint.port)
    monkeypatch.setenv("RESILE_MASTER", str(endpoint))
    monkeypatch.setenv("RESILE_TOKEN", TOKEN)
    if secret.authority:
        monkeypatch.setenv("RESILE_MASTER_CA", secret.authority)
    access = Access(endpoint, TOKEN, client_tls(secret.authority or None))
    with pytest.raises(RefusedByPeer, match="no addresses of this job's nodes are known"):
        run_in_thread(ask_addresses(access))
    with pytest.raises(NoAddresses, match="no addresses of this job's nodes are known"):
        resile.addresses()
    run_in_thread(direct(access))
    assert run_in_thread(ask_addresses(access)) == ADDRESSES
    assert resile.addresses() == ADDRESSES
