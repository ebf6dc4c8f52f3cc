"""The training part of a job's status: the master's view of each group, and when it is written.
Pure.

Every write goes to all watchers of the job, so progress alone is written only periodically; a write
for another reason includes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.job.throughput import speed_text
from resile.job.training import (
    NodeView,
    TrainingPhase,
    TrainingView,
    amount_in,
    trimmed,
    trimmed_groups,
    writable,
)
from resile.job.view import MAIN
from resile.operator.build.labels import role_selector

__all__ = [
    "StepAt",
    "WrittenProgress",
    "mirrored",
    "step_of",
    "with_members",
    "with_progress",
    "with_training",
]


NOTABLE = {"cpu": (0.1, 0.25), "memory": (16 * 1024**2, 0.05)}
"""The change of a usage, absolute and relative, that is a reason to write it by itself. A node that
trains uses about the same all the time."""


def with_training(
    status: JobStatus,
    job: ElasticJob,
    *,
    seen: Mapping[str, TrainingView] | None,
    generation: int | None,
) -> JobStatus:
    """Return the status with what only the master knows, except the progress of the training and
    the state of each node. ``seen``: by group, the main one as :data:`MAIN`."""
    role = job.spec.scaled_role()
    updated = replace(
        status,
        selector="" if role is None else role_selector(job.metadata.name, role),
        observed_generation=generation,
        conditions=tuple(
            replace(condition, observed_generation=generation) for condition in status.conditions
        ),
        throughput="" if status.finished or job.spec.suspend else status.throughput,
    )
    if seen is None:
        return _at_rest(updated) if job.spec.suspend and not status.finished else mirrored(updated)
    updated = _with_groups(updated, seen, fresh=False)
    main = seen.get(MAIN)
    if main is None:
        return mirrored(updated)
    return mirrored(
        replace(
            updated,
            # A master that lost its state has no round until it has asked the agents; the next
            # one has to get the last round of the job.
            round=main.round or status.round,
            world_size=main.world_size or None,
            training=_with_slow_part(trimmed(main), status.training or TrainingView()),
        )
    )


def with_members(status: JobStatus, seen: Mapping[str, TrainingView]) -> JobStatus:
    """Return the status with the state and usage of each node; unchanged if nothing notable has
    changed."""
    updated = _with_groups(status, seen, fresh=True)
    if MAIN not in seen:
        return updated
    ours = _ours(status, trimmed(seen[MAIN]))
    return mirrored(
        replace(updated, training=_with_notable(ours, status.training or TrainingView()))
    )


def mirrored(status: JobStatus) -> JobStatus:
    """Return the status with the main group's figures in its training as well, where those of
    other groups are."""
    if status.training is None:
        return status
    training = replace(
        status.training,
        round=status.round or 0,
        world_size=status.world_size or 0,
        step=status.step,
        total_steps=status.total_steps,
        loss=status.loss,
        throughput=status.throughput,
    )
    return replace(status, training=training)


def _at_rest(status: JobStatus) -> JobStatus:
    """Return the status of a suspended job: no group has a running round."""
    groups = {name: _stopped(one) for name, one in status.groups.items()}
    training = None if status.training is None else _stopped(status.training)
    return mirrored(replace(status, training=training, groups=groups))


def _stopped(training: TrainingView) -> TrainingView:
    phase = TrainingPhase.GATHERING.value
    return replace(training, phase=phase, throughput="", nodes={}, counts={})


def _with_groups(status: JobStatus, seen: Mapping[str, TrainingView], *, fresh: bool) -> JobStatus:
    """Return the status with all groups but the main one; with ``fresh`` also their slow part."""
    others = {name: one for name, one in seen.items() if name != MAIN}
    listed = trimmed_groups({name: _ours(status, one) for name, one in others.items()})
    groups = {}
    for name, one in listed.items():
        before = status.groups.get(name, TrainingView())
        groups[name] = _with_notable(one, before) if fresh else _with_slow_part(one, before)
    return replace(status, groups=groups, unlisted_groups=len(others) - len(listed))


def _ours(status: JobStatus, training: TrainingView) -> TrainingView:
    """Return the training with the job's own nodes only: a master may list any node."""
    known = {rank.name for rank in status.nodes}
    if not known:
        return training
    nodes = {name: one for name, one in training.nodes.items() if name in known}
    return replace(training, nodes=nodes)


def _with_slow_part(fresh: TrainingView, before: TrainingView) -> TrainingView:
    throughput = "" if fresh.over else before.throughput
    return replace(
        fresh,
        nodes=before.nodes,
        counts=before.counts,
        step=before.step,
        total_steps=before.total_steps,
        loss=before.loss,
        throughput=throughput,
    )


def _with_notable(fresh: TrainingView, before: TrainingView) -> TrainingView:
    if _differ(before.nodes, fresh.nodes):
        return fresh
    return replace(fresh, nodes=before.nodes)


def _differ(before: Mapping[str, NodeView], fresh: Mapping[str, NodeView]) -> bool:
    if before.keys() != fresh.keys():
        return True
    return any(_differs(before[name], one) for name, one in fresh.items())


def _differs(before: NodeView, fresh: NodeView) -> bool:
    if replace(before, cpu="", memory="") != replace(fresh, cpu="", memory=""):
        return True
    return _notable("cpu", before.cpu, fresh.cpu) or _notable("memory", before.memory, fresh.memory)


def _notable(name: str, before: str, fresh: str) -> bool:
    old, new = amount_in(before), amount_in(fresh)
    if old is None or new is None:
        return old is not new
    least, part = NOTABLE[name]
    return abs(new - old) > max(least, part * old)


@dataclass(frozen=True)
class StepAt:
    """The step of the training at a time of a monotonic clock."""

    step: int
    at: float

    def since(self, earlier: StepAt | None) -> str:
        """Return the speed since ``earlier`` as text; empty if there is none."""
        if earlier is None or self.at <= earlier.at or self.step <= earlier.step:
            return ""
        return speed_text((self.step - earlier.step) / (self.at - earlier.at))


@dataclass(frozen=True)
class WrittenProgress:
    """The progress that was last written, and when."""

    pace: StepAt | None = None
    members_at: float = float("-inf")
    """The time at which the state of each node was written, on a monotonic clock."""


def with_progress(
    status: JobStatus,
    before: JobStatus,
    *,
    seen: Mapping[str, TrainingView] | None,
    last: WrittenProgress,
    now: float,
    every: float,
) -> tuple[JobStatus, WrittenProgress]:
    """Return the status with step, speed and the state of each node, where they are due.

    ``before``: the status as last written; ``every``: seconds between two writes.
    """
    status, last = _with_pace(status, before, step_of(seen), last=last, now=now, every=every)
    if not seen:
        return status, last
    if MAIN in seen and status.step != before.step:
        total, loss = writable(seen[MAIN].total_steps), seen[MAIN].loss
        status = mirrored(msgspec.structs.replace(status, total_steps=total, loss=loss))
    if now < last.members_at + every and status == before:
        return status, last
    updated = with_members(status, seen)
    return updated, dataclasses.replace(last, members_at=now) if updated != before else last


def step_of(seen: Mapping[str, TrainingView] | None) -> int | None:
    """Return the step of the main group's training; None if it cannot be written."""
    return writable(seen[MAIN].step) if seen and MAIN in seen else None


def _with_pace(
    status: JobStatus,
    before: JobStatus,
    step: int | None,
    *,
    last: WrittenProgress,
    now: float,
    every: float,
) -> tuple[JobStatus, WrittenProgress]:
    if step is None or step == status.step:
        return status, last
    due = last.pace is None or now >= last.pace.at + every
    if not due and not status.finished:
        along = status != before
        return (msgspec.structs.replace(status, step=step) if along else status), last
    pace = StepAt(step, now)
    throughput = "" if status.finished else pace.since(last.pace)
    updated = msgspec.structs.replace(status, step=step, throughput=throughput)
    return updated, dataclasses.replace(last, pace=pace)
