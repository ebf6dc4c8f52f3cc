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
"""By how much, at least and as a part, an amount in use has to change to be written down for its
own sake. A node that trains uses about the same all the time."""


def with_training(
    status: JobStatus,
    job: ElasticJob,
    *,
    seen: Mapping[str, TrainingView] | None,
    generation: int | None,
) -> JobStatus:
    """The status with what the controller cannot know, apart from how far the training is and
    what each node does. ``seen``: by group, the main one as :data:`MAIN`."""
    role = job.spec.scaled_role()
    told = replace(
        status,
        selector="" if role is None else role_selector(job.metadata.name, role),
        observed_generation=generation,
        conditions=tuple(
            replace(condition, observed_generation=generation) for condition in status.conditions
        ),
        throughput="" if status.finished or job.spec.suspend else status.throughput,
    )
    if seen is None:
        return _at_rest(told) if job.spec.suspend and not status.finished else mirrored(told)
    told = _with_groups(told, seen, fresh=False)
    main = seen.get(MAIN)
    if main is None:
        return mirrored(told)
    return mirrored(
        replace(
            told,
            # A master that lost its memory knows of none until it has asked; the next one has to
            # be told how far the job had come.
            round=main.round or status.round,
            world_size=main.world_size or None,
            training=_with_slow_part(trimmed(main), status.training or TrainingView()),
        )
    )


def with_members(status: JobStatus, seen: Mapping[str, TrainingView]) -> JobStatus:
    """The status with what each node does and uses; as it was if nothing worth it has changed."""
    told = _with_groups(status, seen, fresh=True)
    if MAIN not in seen:
        return told
    ours = _ours(status, trimmed(seen[MAIN]))
    return mirrored(replace(told, training=_with_notable(ours, status.training or TrainingView())))


def mirrored(status: JobStatus) -> JobStatus:
    """The status with the main group's figures in its training as well, where those of other
    groups are."""
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
    """Of a suspended job no group has a round that runs."""
    groups = {name: _stopped(one) for name, one in status.groups.items()}
    training = None if status.training is None else _stopped(status.training)
    return mirrored(replace(status, training=training, groups=groups))


def _stopped(training: TrainingView) -> TrainingView:
    phase = TrainingPhase.GATHERING.value
    return replace(training, phase=phase, throughput="", nodes={}, counts={})


def _with_groups(status: JobStatus, seen: Mapping[str, TrainingView], *, fresh: bool) -> JobStatus:
    """The status with the groups beside the main one; with ``fresh`` also their slow part."""
    others = {name: one for name, one in seen.items() if name != MAIN}
    listed = trimmed_groups({name: _ours(status, one) for name, one in others.items()})
    groups = {}
    for name, one in listed.items():
        before = status.groups.get(name, TrainingView())
        groups[name] = _with_notable(one, before) if fresh else _with_slow_part(one, before)
    return replace(status, groups=groups, unlisted_groups=len(others) - len(listed))


def _ours(status: JobStatus, training: TrainingView) -> TrainingView:
    """A master lists any node it likes; only the job's own nodes are written down."""
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
    """How far the training was at a moment of a clock that only goes forward."""

    step: int
    at: float

    def since(self, earlier: StepAt | None) -> str:
        """The speed between two moments, in words; empty if there is none to tell."""
        if earlier is None or self.at <= earlier.at or self.step <= earlier.step:
            return ""
        return speed_text((self.step - earlier.step) / (self.at - earlier.at))


@dataclass(frozen=True)
class WrittenProgress:
    """What was last written for its own sake, and when."""

    pace: StepAt | None = None
    members_at: float = float("-inf")
    """When what each node does was written, on a clock that only goes forward."""


def with_progress(
    status: JobStatus,
    before: JobStatus,
    *,
    seen: Mapping[str, TrainingView] | None,
    last: WrittenProgress,
    now: float,
    every: float,
) -> tuple[JobStatus, WrittenProgress]:
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
    told = msgspec.structs.replace(status, step=step, throughput=throughput)
    return told, dataclasses.replace(last, pace=pace)
