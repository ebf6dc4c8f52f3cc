"""Nothing listens on the network unless the user says so."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

import psutil
import pytest

from resile.agent.environment import worker_environment
from resile.wire.messages import Start, StoreAddress
from tests.local.jobs import Job, wait_for
from tests.local.wire.masters import resile, running_master
from tests.local.wire.test_tokens import masters_in


def listening(processes: list[psutil.Process]) -> set[str]:
    """The addresses at which any of these accept connections."""
    return {
        connection.laddr.ip
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }


def are_loopback(addresses: set[str]) -> bool:
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


def test_a_master_listens_on_loopback_by_default(tmp_path: Path) -> None:
    with running_master(tmp_path, "--endpoint", "localhost:0") as master:
        found = listening([psutil.Process(master.process.pid)])
        assert found
        assert are_loopback(found)


def test_a_master_on_the_network_without_tls_warns(tmp_path: Path) -> None:
    """The address is nobody's, so that this test, too, listens nowhere."""
    done = resile(tmp_path, "master", "--endpoint", "203.0.113.7:1")
    assert "warning: without --tls-cert" in done.stderr


def test_everything_that_resile_run_opens_is_on_loopback(job: Job) -> None:
    node = job.start("--standalone", nproc=2, endpoint=False)
    job.trains(world=2)
    try:
        masters = wait_for(lambda: masters_in(job.folder), "the standalone master")
        found = listening([*node.family(), *masters])
        assert found, "neither a master nor a store listens"
        assert are_loopback(found), found
    finally:
        for process in masters_in(job.folder):
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has another name")
@pytest.mark.parametrize(("host", "interface"), [("127.0.0.1", "lo"), ("10.0.0.7", None)])
def test_gloo_stays_on_loopback_with_the_store(host: str, interface: str | None) -> None:
    start = Start(
        round=1,
        group_rank=0,
        group_world_size=1,
        first_rank=0,
        world_size=1,
        store=StoreAddress(host, 1),
        restart_count=0,
        max_restarts=0,
    )
    found = worker_environment(
        {},
        start,
        local_rank=0,
        nproc=1,
        run_id="j",
        role="default",
        error_file=Path("error.json"),
        progress_socket="@x",
    )
    assert found.get("GLOO_SOCKET_IFNAME") == interface
