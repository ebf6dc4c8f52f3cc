"""How far a training is, and when that is worth writing into a job's status. Pure.

Every write goes to all who watch the job, so headway alone is written only now and then; what is
written for another reason takes it along.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from resile.job.status import JobStatus
from resile.job.training import TrainingView, writable
from resile.job.view import MAIN
from resile.operator.training import mirrored, with_members
from resile.wire.throughput import speed_text

__all__ = ["Headway", "Pace", "step_of", "with_headway"]


@dataclass(frozen=True)
class Pace:
    """How far the training was at a moment of a clock that only goes forward."""

    step: int
    at: float

    def since(self, earlier: Pace | None) -> str:
        """The speed between two moments, in words; empty if there is none to tell."""
        if earlier is None or self.at <= earlier.at or self.step <= earlier.step:
            return ""
        return speed_text((self.step - earlier.step) / (self.at - earlier.at))


@dataclass(frozen=True)
class Headway:
    """What was last written for its own sake, and when."""

    pace: Pace | None = None
    members_at: float = float("-inf")
    """When what each node does was written, on a clock that only goes forward."""


def with_headway(
    status: JobStatus,
    before: JobStatus,
    *,
    seen: Mapping[str, TrainingView] | None,
    last: Headway,
    now: float,
    every: float,
) -> tuple[JobStatus, Headway]:
    """The status with step, speed and what each node does, as far as it is time for them.

    ``before``: the status as it is written; ``every``: seconds between two writes.
    """
    status, last = _with_pace(status, before, step_of(seen), last=last, now=now, every=every)
    if not seen:
        return status, last
    if MAIN in seen and status.step != before.step:
        total, loss = writable(seen[MAIN].total_steps), seen[MAIN].loss
        status = mirrored(msgspec.structs.replace(status, total_steps=total, loss=loss))
    if now < last.members_at + every and status == before:
        return status, last
    told = with_members(status, seen)
    return told, dataclasses.replace(last, members_at=now) if told != before else last


def step_of(seen: Mapping[str, TrainingView] | None) -> int | None:
    """How far the main group's training is, if that can be written down."""
    return writable(seen[MAIN].step) if seen and MAIN in seen else None


def _with_pace(
    status: JobStatus,
    before: JobStatus,
    step: int | None,
    *,
    last: Headway,
    now: float,
    every: float,
) -> tuple[JobStatus, Headway]:
    if step is None or step == status.step:
        return status, last
    due = last.pace is None or now >= last.pace.at + every
    if not due and not status.finished:
        along = status != before
        return (msgspec.structs.replace(status, step=step) if along else status), last
    pace = Pace(step, now)
    throughput = "" if status.finished else pace.since(last.pace)
    told = msgspec.structs.replace(status, step=step, throughput=throughput)
    return told, dataclasses.replace(last, pace=pace)
