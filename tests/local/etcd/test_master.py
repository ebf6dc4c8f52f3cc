"""A master with its store in etcd, in the middle of a running job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.local.etcd.server import EtcdServer
from tests.local.torchrun.launching import TorchrunJob


@pytest.fixture
def job(tmp_path: Path) -> Iterator[TorchrunJob]:
    with closing(TorchrunJob(tmp_path)) as made:
        yield made


def test_a_killed_master_goes_on_from_etcd(job: TorchrunJob, etcd: EtcdServer) -> None:
    master = job.master("--store", etcd.url)
    nodes = [job.start("--nnodes", "2", "--rdzv-id", "test") for _ in range(2)]
    first = job.trains(world=2)
    before = job.status()
    master.signal(signal.SIGKILL)
    master.wait()
    job.goes_on()
    # The agents of this machine may be faster: then this one finds the store or the port in use.
    job.launch_master("--store", etcd.url)
    wait_for(
        lambda: not any(node.away for node in job.status().nodes.values()),
        "all nodes at the new master",
    )
    after = job.status()
    assert after.round == before.round == first
    assert {n.member for n in after.nodes.values()} == {n.member for n in before.nodes.values()}
    assert any(event["kind"] == "MasterReturned" for event in job.events())
    job.goes_on()
    assert job.round == first
    os.kill(job.pid_of(1), signal.SIGKILL)
    job.trains(world=2, after=first)
    for node in nodes:
        node.signal(signal.SIGTERM)
    assert [node.wait() for node in nodes] == [nodes[0].process.returncode] * 2


def test_a_job_that_has_ended_leaves_nothing_in_etcd(job: TorchrunJob, etcd: EtcdServer) -> None:
    master = job.master("--store", etcd.url, "--until-done")
    node = job.start("--rdzv-id", "test", STEPS="5")
    assert node.wait() == 0, node.output
    assert master.wait() == 0, master.output
    assert etcd.keys() == []


def test_an_etcd_that_is_not_there_is_named_before_anything_starts(tmp_path: Path) -> None:
    url = f"etcd://127.0.0.1:{free_port()}/jobs/a"
    command = [sys.executable, "-m", "resile", "master", "--endpoint", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--store", url],
        env={**os.environ, "RESILE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"Error: the store {url} did not answer for 10 s: " in done.stderr
