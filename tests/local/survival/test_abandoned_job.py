"""The effect of a job that was killed, or has just ended, on the next one at its endpoint."""

from __future__ import annotations

import os
import signal

from tests.local.jobs import Job

SOON = ("--rdzv-conf", "lease=1")


def killed_as_a_whole(job: Job, *flags: str) -> None:
    """Start two nodes that train; then kill everything, leaving only their master's store."""
    for _ in range(2):
        job.start("--nnodes", "2", *SOON, *flags)
    job.trains(world=2)
    for pid in job.master_pids():
        os.kill(pid, signal.SIGKILL)
    for node in job.nodes:
        node.kill()
        node.process.wait()
    for pid in job.master_pids():
        os.kill(pid, signal.SIGKILL)


def test_a_job_that_was_killed_is_continued_with_the_sizes_of_the_next_one(job: Job) -> None:
    killed_as_a_whole(job)
    before = job.round
    node = job.start("--nnodes", "1", *SOON)
    job.trains(world=1, after=before)
    node.says("it continues with the settings of the present nodes")
    node.says("to discard it, end its processes and remove")


def test_another_job_does_not_erase_one_that_is_not_over(job: Job) -> None:
    killed_as_a_whole(job, "--rdzv-id", "first")
    other = job.start("--nnodes", "1", "--rdzv-id", "second")
    assert other.wait() == 1
    assert "belongs to the job 'first', which is not over" in other.output
    assert "--rdzv-id first" in other.output
    before = job.round
    job.start("--nnodes", "1", *SOON, "--rdzv-id", "first")
    assert job.trains(world=1, after=before) > before


def test_a_job_that_meets_the_master_of_one_that_just_ended_runs(job: Job) -> None:
    finish = {"FINISH": str(job.folder / "finish")}
    first = job.start(*SOON, **finish)
    job.trains(world=1)
    spare = job.start(*SOON, **finish)
    spare.says("waiting as a spare")
    # It does not acknowledge the end, so the master stays for as long as it may.
    spare.signal(signal.SIGSTOP)
    (job.folder / "finish").touch()
    assert first.wait() == 0
    trained = {step.pid for step in job.records()}
    fresh = job.start(STEPS="3")
    assert fresh.wait() == 0, fresh.output
    assert {step.pid for step in job.records()} > trained, "it exited without having run anything"
