"""A node that cannot run the script joins a job that trains."""

from __future__ import annotations

from tests.local.jobs import Job


def test_a_broken_newcomer_does_not_end_a_healthy_job(job: Job) -> None:
    broken = job.folder / "broken.py"
    broken.write_text("import a_dependency_that_is_missing_here\n")
    flags = ("--nnodes", "1:2", "--max-restarts", "0", "--rdzv-conf", "last_call=0")
    job.start(*flags)
    first = job.trains(world=1)
    job.goes_on(steps=200)  # by then its master knows that it has reached the process group
    newcomer = job.start(*flags, script=str(broken))
    assert newcomer.wait() == 1
    assert "This node failed, and the job continues without it" in newcomer.output
    assert "No module named 'a_dependency_that_is_missing_here'" in newcomer.output
    job.trains(world=1, after=first)
