"""What the master saw of the training, as part of a job's status. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from resile.job.spec import ElasticJob
from resile.job.status import JobStatus, MemberStatus
from resile.platform.kubernetes.labels import role_selector
from resile.wire.views import JobPicture, JobView, Usage
from resile.wire.written import usage_of, written_training

__all__ = ["with_members", "with_training"]

NOTABLE = {"cpu": (0.1, 0.25), "memory": (16 * 1024**2, 0.05)}
"""By how much, at least and as a part, an amount in use has to change to be written down for its
own sake. A node that trains uses about the same all the time."""

GATHERING = "gathering"


def with_training(
    status: JobStatus, job: ElasticJob, *, seen: JobPicture | None, generation: int | None
) -> JobStatus:
    """The status with what the controller cannot know, apart from how far the training is and
    what each node does."""
    role = job.spec.scaled_role()
    training = None if seen is None else seen.training
    told = replace(
        status,
        selector="" if role is None else role_selector(job.metadata.name, role),
        observed_generation=generation,
        conditions=tuple(
            replace(condition, observed_generation=generation) for condition in status.conditions
        ),
        throughput="" if status.finished or job.spec.suspend else status.throughput,
    )
    if training is not None:
        return replace(
            told,
            # A master that lost its memory knows of none until it has asked; the next one has to
            # be told how far the job had come.
            round=training.round or status.round,
            world_size=training.world_size or None,
            training=replace(
                written_training(training), nodes=_members(status), counts=_counts(status)
            ),
        )
    if job.spec.suspend and status.training is not None and not status.finished:
        stopped = replace(status.training, phase=GATHERING, nodes={}, counts={})
        return replace(told, training=stopped)
    return told


def with_members(status: JobStatus, seen: JobView) -> JobStatus:
    """The status with what each node does and uses; as it was if nothing worth it has changed."""
    fresh, before = written_training(seen), _members(status)
    known = {rank.name for rank in status.nodes}
    if known:  # a master lists whom it likes; only the job's own nodes are written down
        ours = {name: one for name, one in fresh.nodes.items() if name in known}
        fresh = replace(fresh, nodes=ours)
    if not _differ(before, fresh.nodes):
        fresh = replace(fresh, nodes=before)
    return replace(status, training=fresh)


def _counts(status: JobStatus) -> dict[str, int]:
    return {} if status.training is None else status.training.counts


def _members(status: JobStatus) -> dict[str, MemberStatus]:
    return {} if status.training is None else status.training.nodes


def _differ(before: Mapping[str, MemberStatus], fresh: Mapping[str, MemberStatus]) -> bool:
    if before.keys() != fresh.keys():
        return True
    return any(_differs(before[name], one) for name, one in fresh.items())


def _differs(before: MemberStatus, fresh: MemberStatus) -> bool:
    if replace(before, cpu="", memory="") != replace(fresh, cpu="", memory=""):
        return True
    old, new = usage_of(before) or Usage(), usage_of(fresh) or Usage()
    return _notable("cpu", old.cpu, new.cpu) or _notable("memory", old.memory, new.memory)


def _notable(name: str, old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is not new
    least, part = NOTABLE[name]
    return abs(new - old) > max(least, part * old)
