"""Workers are killed, fail, or never start to train; the job continues."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.local.commands import wait_for
from tests.local.jobs import Job


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("rank", [0, 1])
def test_any_worker_may_be_killed(job: Job, rank: int) -> None:
    job.start(nproc=2)
    first = job.trains(world=2)
    kill(job.pid_of(rank))
    second = job.trains(world=2, after=first)
    assert job.steps(round=second)[0].restarts == 1


def test_all_workers_may_be_killed_at_once(job: Job) -> None:
    job.start("--nnodes", "2")
    job.start("--nnodes", "2")
    first = job.trains(world=2)
    for pid in [job.pid_of(rank) for rank in (0, 1)]:
        kill(pid)
    job.trains(world=2, after=first)


def test_a_worker_may_be_killed_before_its_first_step(job: Job) -> None:
    job.start(nproc=2)
    started = wait_for(lambda: [r for r in job.records() if r.rank == 1], "rank 1 to start")
    kill(started[0].pid)
    job.trains(world=2, after=1)


def test_a_worker_may_be_killed_while_others_wait_in_a_collective(job: Job) -> None:
    job.start(nproc=2, TROUBLE="sleeps-in-collective")
    asleep = wait_for(lambda: [r for r in job.records() if r.what == "asleep"], "rank 1 asleep")
    kill(asleep[0].pid)
    job.trains(world=2, after=1)


def test_a_worker_may_be_killed_again_during_the_recovery(job: Job) -> None:
    job.start("--max-restarts", "5", nproc=2)
    latest = job.trains(world=2)
    kill(job.pid_of(1))
    started = wait_for(
        lambda: [r for r in job.records() if r.round > latest and r.what == "started"],
        "a worker of the next round",
    )
    kill(started[0].pid)
    job.trains(world=2, after=started[0].round)


@pytest.mark.parametrize("trouble", ["raises", "exits-before-joining", "exits-0-early"])
def test_a_worker_that_ends_when_it_should_not_is_restarted(job: Job, trouble: str) -> None:
    node = job.start(nproc=2, TROUBLE=trouble, STEPS="30")
    job.trains(world=2, after=1)
    assert node.wait() == 0, node.output


def test_a_worker_that_never_reaches_the_process_group_is_restarted(job: Job) -> None:
    # Wide enough for a busy machine, on which healthy workers may be seconds apart.
    flags = ("--rdzv-conf", "start_timeout=4", "--max-restarts", "10")
    node = job.start(*flags, nproc=2, TROUBLE="never-joins")
    job.trains(world=2, after=1)
    assert "rank 1 did not reach the process group within 4 s" in node.output


def test_a_job_whose_restarts_are_used_up_fails_with_one_clear_report(job: Job) -> None:
    node = job.start(
        "--max-restarts", "1", nproc=2, TROUBLE="raises", TROUBLE_ROUNDS="9", TROUBLE_RANK="1"
    )
    assert node.wait() == 1
    report = node.output[node.output.index("The job failed") :]
    assert "the only restart is used up" in report
    assert "rank 1 (local 1)" in report
    assert "exited with code 1" in report
    assert "RuntimeError: trouble on rank 1" in report
    assert report.count("The job failed") == 1
    job.leaves_nothing_behind([node.pid, *job.seen])


def test_the_rounds_store_may_be_killed(job: Job) -> None:
    node = job.start(nproc=2)
    first = job.trains(world=2)
    port = int(node.output.rpartition("store 127.0.0.1:")[2].split()[0])
    workers = {record.pid for record in job.steps(round=first)}
    (host,) = {
        c.pid
        for c in psutil.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN and c.laddr.port == port and c.pid not in workers
    }
    kill(host)
    job.trains(world=2, after=first)
    assert "the round's store" in node.output
