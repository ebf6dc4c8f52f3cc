"""A node without a network stops its workers; one that only lost its master does not.

Needs root: the node and its master are in network namespaces that the test creates.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resile.agent.isolation import MARGIN
from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS, Job, NodeProcess

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and the command ip"
)

TOKEN = "a-token-that-only-this-test-knows"
MASTER, NODE = "10.213.77.1", "10.213.77.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Wire:
    """Two namespaces with a cable between them."""

    left: str
    right: str

    def cut(self) -> None:
        ip("-n", self.right, "link", "set", "right", "down")

    def mend(self) -> None:
        ip("-n", self.right, "link", "set", "right", "up")


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire(f"resile-l{os.getpid()}", f"resile-r{os.getpid()}")
    try:
        for name in (made.left, made.right):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", made.left, "link", "add", "left", "type", "veth", "peer", "right")
        ip("-n", made.left, "link", "set", "right", "netns", made.right)
        for name, device, address in ((made.left, "left", MASTER), (made.right, "right", NODE)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        yield made
    finally:
        for name in (made.left, made.right):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def start_in(namespace: str, job: Job, name: str, *words: str) -> NodeProcess:
    output_file = job.folder / f"{name}.log"
    with open(output_file, "wb") as output:
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, "-m", "resile", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=job.env(RESILE_TOKEN=TOKEN, RESILE_MASTER_KEPT="1"),
            start_new_session=True,
        )
    return NodeProcess(process, output_file)


@dataclass
class Apart:
    """A master and a training node, each on its own simulated machine."""

    job: Job
    wire: Wire
    master: NodeProcess
    node: NodeProcess


@pytest.fixture
def apart(job: Job, wire: Wire, tmp_path: Path) -> Iterator[Apart]:
    where = ("--endpoint", f"{MASTER}:29400", "--store", str(tmp_path / "store.db"))
    master = start_in(wire.left, job, "master", "master", *where, "--nnodes", "1")
    flags = ("--rdzv-endpoint", f"{MASTER}:29400", "--rdzv-conf", "lease=1")
    node = start_in(wire.right, job, "node", "run", *flags, str(SCRIPTS / "steps.py"))
    try:
        job.trains(world=1)
        yield Apart(job, wire, master, node)
    finally:
        for process in (node, master):
            process.kill()
            process.process.wait()


def test_a_node_that_reaches_nobody_stops_its_workers_until_it_is_back(apart: Apart) -> None:
    job = apart.job
    first, worker = job.round, job.pid_of(0)
    apart.wire.cut()
    apart.node.says("neither the master nor another node of the round could be reached")
    wait_for(lambda: not Path(f"/proc/{worker}").exists(), "the end of the worker")
    apart.wire.mend()
    job.trains(world=1, after=first)


def test_a_node_whose_master_died_trains_on_for_as_long_as_its_machine_answers(
    apart: Apart,
) -> None:
    job = apart.job
    apart.master.signal(signal.SIGKILL)
    seconds = 2 * (1 + MARGIN)
    job.goes_on(steps=int(seconds / 0.02))
    assert "neither the master" not in apart.node.output
