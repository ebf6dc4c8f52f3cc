"""Nothing listens on the network unless the user requests it."""

from __future__ import annotations

import ipaddress
import socket
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from resile.agent.worker_env import node_environment
from resile.wire.endpoint import Endpoint, free_port
from tests.local.commands import wait_for
from tests.local.jobs import Job
from tests.local.wire.masters import resile, running_master
from tests.local.wire.test_tokens import masters_in


def listening(processes: list[psutil.Process]) -> set[str]:
    """The addresses at which any of these processes listen."""
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
    """The address is unassigned, so that this test, too, listens nowhere."""
    done = resile(tmp_path, "master", "--endpoint", "203.0.113.7:1")
    assert "warning: messages are not encrypted; use --tls-cert" in done.stderr


def test_a_master_that_is_told_to_listens_at_every_address_of_both_families(tmp_path: Path) -> None:
    port = free_port()
    with running_master(tmp_path, "--endpoint", f"*:{port}") as master:
        hosts = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
        for host in hosts:
            assert replace(master, endpoint=Endpoint(host, port)).ask("/healthz")[0] == 200


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
@pytest.mark.parametrize(("address", "interface"), [("127.0.0.1", "lo"), ("10.0.0.7", None)])
def test_gloo_stays_on_loopback_with_its_node(address: str, interface: str | None) -> None:
    found = node_environment({}, nproc=1, address=address, master="m:1")
    assert found.get("GLOO_SOCKET_IFNAME") == interface


def test_a_users_own_choice_for_gloo_stays() -> None:
    given = {"GLOO_SOCKET_IFNAME": "eth7"}
    found = node_environment(given, nproc=1, address="127.0.0.1", master="m:1")
    assert found["GLOO_SOCKET_IFNAME"] == "eth7"
