"""When the progress of a training is written to the status."""

from __future__ import annotations

from resile.job.status import JobPhase, JobStatus
from resile.job.training import TrainingView
from resile.job.view import MAIN
from resile.operator.training_status import StepAt, WrittenProgress, with_progress
from tests.unit.job.trainings import member, training


def trainings(step: int) -> dict[str, TrainingView]:
    return {MAIN: training(member("n", step=step), step=step, total_steps=99, loss=1.0 / step)}


def looked(
    status: JobStatus,
    before: JobStatus,
    step: int,
    last: WrittenProgress,
    *,
    now: float,
) -> tuple[JobStatus, WrittenProgress]:
    return with_progress(status, before, seen=trainings(step), last=last, now=now, every=10.0)


def test_the_first_step_is_written_at_once_and_the_next_when_it_is_time() -> None:
    empty = JobStatus(phase=JobPhase.RUNNING)
    first, last = looked(empty, empty, 5, WrittenProgress(), now=100.0)
    assert (first.step, first.throughput) == (5, "")
    assert (first.total_steps, first.loss) == (99, 0.2)
    soon, same = looked(first, first, 9, last, now=109.0)
    assert (soon, same) == (first, last)
    later, last = looked(first, first, 25, last, now=110.0)
    assert (later.step, later.throughput) == (25, "2 steps/s")
    assert later.loss == 0.04
    assert last.pace == StepAt(25, 110.0)


def test_what_is_written_for_another_reason_takes_the_step_along() -> None:
    empty = JobStatus(phase=JobPhase.RUNNING)
    first, last = looked(empty, empty, 5, WrittenProgress(), now=100.0)
    other, same = looked(JobStatus(phase=JobPhase.RESTARTING), first, 9, last, now=101.0)
    assert other.step == 9
    assert same.pace == last.pace, "the speed is told over whole spans only"


def test_the_last_step_of_a_finished_job_is_written_whenever_it_comes() -> None:
    empty = JobStatus(phase=JobPhase.RUNNING)
    first, last = looked(empty, empty, 5, WrittenProgress(), now=100.0)
    over, _ = looked(JobStatus(phase=JobPhase.SUCCEEDED), first, 6, last, now=100.5)
    assert (over.step, over.throughput) == (6, "")


def test_nothing_is_written_of_a_training_that_nobody_has_seen() -> None:
    empty = JobStatus(phase=JobPhase.RUNNING)
    told = with_progress(empty, empty, seen=None, last=WrittenProgress(), now=1.0, every=10.0)
    assert told == (empty, WrittenProgress())
