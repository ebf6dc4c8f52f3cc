"""The same guarantees on a busy machine: two spinning processes beside the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.local.jobs import Job, NodeProcess
from tests.local.ledgers import each_sample_counts_once
from tests.local.training import ENDLESS, Trained

pytestmark = pytest.mark.alone


@pytest.fixture
def spinners() -> Iterator[None]:
    """Two processes that use all CPU."""
    spin = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in spin:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("spinners")
@pytest.mark.parametrize("nodes", [1, 2])
def test_twenty_killed_workers_are_all_replaced_on_a_busy_machine(job: Job, nodes: int) -> None:
    flags = ("--nnodes", str(nodes), "--max-restarts", "100")
    for _ in range(nodes):
        job.start(*flags, nproc=2 // nodes)
    latest = job.trains(world=2)
    for turn in range(20):
        os.kill(job.pid_of(turn % 2), signal.SIGKILL)
        latest = job.trains(world=2, after=latest)
    story = job.nodes[0].output + job.master_log
    assert job.steps(round=latest)[0].restarts == 20, story


@pytest.mark.usefixtures("spinners")
def test_a_killed_node_and_a_killed_master_are_survived_on_a_busy_machine(
    trained: Trained,
) -> None:
    def node() -> NodeProcess:
        return trained.train("--nnodes", "1:2", nproc=1, steps=ENDLESS, CHECKPOINTS="")

    nodes = [node() for _ in range(2)]
    latest = trained.trains(world=2)
    trained.kill_master()
    trained.goes_on()
    nodes[1].signal(signal.SIGKILL)
    nodes[1].process.wait()
    latest = trained.trains(world=1, after=latest)
    node()
    trained.trains(world=2, after=latest)
    trained.finish()
    each_sample_counts_once(trained.ledger)
