"""Processes that are paused for longer than a lease, and resume: Ctrl-Z, a frozen container."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

import psutil

from tests.local.jobs import Job

LEASE = 1.0
FLAGS = ("--rdzv-conf", f"lease={LEASE:g}")


def paused(pids: Iterable[int]) -> None:
    """Stop processes for much longer than the lease, and resume them."""
    pids = list(pids)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3 * LEASE)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def everything(job: Job) -> set[int]:
    """All processes of a job on this machine, like those of a container that is frozen."""
    roots = [*(node.pid for node in job.nodes), *job.master_pids()]
    below = {child.pid for root in roots for child in psutil.Process(root).children(recursive=True)}
    return {*roots, *below}


def test_the_only_node_of_a_job_may_be_stopped_and_go_on(job: Job) -> None:
    node = job.start(*FLAGS, nproc=2)
    first = job.trains(world=2)
    paused([node.pid])
    job.goes_on(steps=20)
    assert job.round == first
    assert node.output.count("as node") == 1
    assert "NodeSilent" in job.master_log


def test_a_job_that_is_frozen_as_a_whole_goes_on_where_it_was(job: Job) -> None:
    nodes = [job.start(*FLAGS, "--nnodes", "1:2") for _ in range(2)]
    first = job.trains(world=2)
    paused(everything(job))
    job.goes_on(steps=20)
    assert job.round == first
    assert all(node.output.count("as node") == 1 for node in nodes)
    assert "NodeLost" not in job.master_log
