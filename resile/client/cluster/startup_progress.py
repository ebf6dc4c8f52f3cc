"""The progress of a job's start, in words, and whether it trains. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from resile.client.cluster.job_object import STATUS_STALE
from resile.control.pod_outcome import observe_pod
from resile.job.node import Node, NodePhase
from resile.job.status import ConditionStatus, ConditionType, JobPhase, JobStatus
from resile.job.training import TrainingPhase
from resile.job.view import JobView
from resile.operator.build.labels import MASTER
from resile.operator.observe.pod_status import pod_facts

__all__ = ["StartupOutcome", "StartupProgress", "is_training", "master_line", "startup_progress"]

SUSPENDED = "the job is suspended (spec.suspend)"


class StartupOutcome(Enum):
    """The outcome of a job's start."""

    TRAINS = "it trains"
    SUCCEEDED = "it has succeeded"
    FAILED = "it has failed"
    SUSPENDED = "it is suspended"
    ELSEWHERE = "another controller has it"


@dataclass(frozen=True)
class StartupProgress:
    """The progress of a start: a line for each thing that it waits for, and the outcome, if any."""

    lines: tuple[str, ...]
    outcome: StartupOutcome | None = None


def startup_progress(
    view: JobView,
    *,
    masters: Sequence[Mapping[str, Any]] | None = (),
    stale: bool = False,
) -> StartupProgress:
    """Return the progress of a job. ``masters``: the pods of its master, None if they may not be
    listed. ``stale``: the status is that of an earlier manifest, so it only counts if the job is
    over."""
    status, spec = view.status, view.spec
    if spec is not None and spec.managed_elsewhere:
        return StartupProgress((view.message,), StartupOutcome.ELSEWHERE)
    if status is None:
        halt = StartupOutcome.SUSPENDED if spec is not None and spec.suspend else None
        return StartupProgress((SUSPENDED if halt else view.message,), halt)
    if status.phase is JobPhase.SUCCEEDED:
        return StartupProgress(
            (_with("the job has succeeded", view.message),), StartupOutcome.SUCCEEDED
        )
    if stale:
        return StartupProgress((STATUS_STALE,))
    if status.phase is JobPhase.FAILED or _refused(status):
        return StartupProgress((_with("the job has failed", view.message),), StartupOutcome.FAILED)
    if spec is not None and spec.suspend:
        return StartupProgress((SUSPENDED,), StartupOutcome.SUSPENDED)
    if is_training(view):
        return StartupProgress((_training(status),), StartupOutcome.TRAINS)
    lines = (master_line(masters, status.master_problem), _nodes(view, status), _round(status))
    return StartupProgress(tuple(line for line in lines if line))


def is_training(view: JobView) -> bool:
    """Return whether the job trains: its round runs, or it has no roles that form rounds.

    A round that is still forming does not count: its workers may fail before they have begun."""
    status = view.status
    if status is None or status.phase is not JobPhase.RUNNING:
        return False
    if view.spec is not None and not view.spec.training_roles():
        return True
    if status.training is not None:
        return status.training.phase == TrainingPhase.RUNNING
    if status.step is not None or status.world_size:
        return True  # written by a version without a training phase
    return view.training is not None and view.training.phase == TrainingPhase.RUNNING


def _refused(status: JobStatus) -> bool:
    created = status.condition(ConditionType.CREATED)
    return created is not None and created.status is ConditionStatus.FALSE


def _with(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what


def _training(status: JobStatus) -> str:
    parts = [f"round {status.round}"] if status.round else []
    parts += [f"{status.world_size} workers"] if status.world_size else []
    parts += [f"step {status.step}"] if status.step is not None else []
    return f"training: {', '.join(parts)}" if parts else f"running: {_count(status)}"


def master_line(pods: Sequence[Mapping[str, Any]] | None, why: str = "") -> str:
    """Return the progress of the job's master. Empty once it is ready: then the nodes matter.

    ``why``: the operator's reason why it cannot have a master."""
    if pods is None:
        return _with("there is no master", why) if why else ""
    if not pods:
        return _with("there is no master yet", why)
    pod = pods[-1]
    node = Node(role=MASTER, rank=0, id=0, name=pod["metadata"]["name"])
    facts = pod_facts(node, pod)
    seen = observe_pod(facts, stop_requested=False, reachable=True)
    if seen.phase is not NodePhase.RUNNING:
        return _with("the master is being started", seen.message or facts.waiting or why)
    ready = facts.conditions.get("Ready")
    return "" if ready is not None and ready.status == "True" else "the master has started"


def _nodes(view: JobView, status: JobStatus) -> str:
    """Return how many nodes run, and what the first of the others waits for."""
    waiting = [
        rank
        for rank in status.nodes
        if rank.phase in (NodePhase.PENDING, NodePhase.WAITING) and rank.message
    ]
    said = f"{_count(status)} nodes are running"
    if waiting:
        rank = waiting[0]
        return f"{said}; {rank.name or rank.role} is {rank.phase.value.lower()}: {rank.message}"
    running = status.condition(ConditionType.RUNNING)
    if running is not None and running.message:
        return running.message  # it contains the count, or something more important
    return _with(said, view.message)


def _round(status: JobStatus) -> str:
    """Return the line about a round that has its members and does not run yet."""
    if (
        status.training is None
        or status.training.phase != TrainingPhase.FORMING
        or not status.world_size
    ):
        return ""
    return f"round {status.round} is forming: {status.world_size} workers"


def _count(status: JobStatus) -> str:
    active = sum(role.active for role in status.roles.values())
    wanted = sum(role.wanted for role in status.roles.values())
    return f"{active} of {wanted}"
