"""The view of a job: one struct with everything that people and programs see of it. Pure.

:func:`combine` builds it from two halves. The job's controller knows the ranks, why they
are pending and how often they were replaced; its master knows the members of the round and its
progress. Both call a node by its name. On a cluster the operator writes the master's half into the
job's status (``job/training.py`` trims it), and :func:`trainings_in` reads it from there, so that
the view is the same whichever source it comes from.

The JSON of a view is documented in docs/job-json.md. Fields are only ever added, with defaults;
unknown fields are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.node import LIVE, NodePhase
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.status import ConditionStatus, ConditionType, JobPhase, JobStatus, NodeStatus
from resile.job.training import (
    Failure,
    MemberState,
    NodeView,
    TrainingView,
    cpu_text,
    memory_text,
    trimmed,
    trimmed_groups,
    writable,
)

__all__ = [
    "MAIN",
    "VIEW_VERSION",
    "JobView",
    "combine",
    "document",
    "ended_view",
    "headline",
    "trainings_in",
    "with_trainings",
]

VIEW_VERSION = "view.resile.dev/v1"
"""Changes only when a field is removed or its meaning changes."""

MAIN = ""
"""The name of a job's main group among its trainings."""

Moment = Annotated[float, Meta(ge=0.0, le=253_402_214_400.0)]
"""Unix time, up to the last that ``datetime`` supports."""


class JobView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """Everything that is visible of a job at one moment."""

    api_version: Annotated[str, Meta(description="The version of this format.")] = VIEW_VERSION
    kind: Annotated[str, Meta(description="Always JobView.")] = "JobView"
    name: Annotated[str, Meta(description="The job's name.")]
    phase: Annotated[
        str, Meta(description="The job in one word; empty before anybody looked after it.")
    ]
    message: Annotated[str, Meta(description="Why it is in that phase, in a sentence.")] = ""
    platform: Annotated[str, Meta(description="Where it runs: local or kubernetes.")] = ""
    namespace: Annotated[
        str | None, Meta(description="On a cluster, the job's namespace; else null.")
    ] = None
    manifest: Annotated[
        dict[str, Any] | None,
        Meta(description="The manifest as it was accepted: apiVersion, kind, metadata, spec."),
    ] = None
    status: Annotated[
        JobStatus | None,
        Meta(description="The controller's status; null for a job without a controller."),
    ] = None
    training: Annotated[
        TrainingView | None,
        Meta(description="The training of the main group; null if it was never seen."),
    ] = None
    groups: Annotated[
        dict[str, TrainingView],
        Meta(description="The training of every other group, by the group's name."),
    ] = msgspec.field(default_factory=dict)
    nodes: Annotated[
        tuple[NodeView, ...], Meta(description="Every node, with its part in its group's round.")
    ] = ()
    failures: Annotated[
        tuple[Failure, ...],
        Meta(description="Of each group whose training failed, the worker that failed first."),
    ] = ()
    requested_sizes: Annotated[
        dict[str, int], Meta(description="Sizes that scale requests asked for, by role.")
    ] = msgspec.field(default_factory=dict)
    suspend: Annotated[
        bool | None,
        Meta(
            description="Whether the job is to be suspended, once somebody asked for it; null if "
            "the manifest decides."
        ),
    ] = None
    deleting: Annotated[bool, Meta(description="Whether the job is being deleted.")] = False
    created: Annotated[
        Moment, Meta(description="When it was created, in Unix time; 0 if that is not known.")
    ] = 0.0
    seen: Annotated[Moment, Meta(description="When this view was made, in Unix time.")] = 0.0
    ended: Annotated[
        str,
        Meta(
            description="How the job's `resile up` ended, or that the job was deleted; empty while "
            "neither is so."
        ),
    ] = ""

    @cached_property
    def job(self) -> ElasticJob | None:
        """The job that the manifest describes; None if there is no manifest yet, or if another
        version of Resile wrote it."""
        try:
            return None if self.manifest is None else job_from_data(self.manifest)
        except ManifestError:
            return None

    @property
    def spec(self) -> JobSpec | None:
        """The specification in the manifest; None if it cannot be parsed."""
        return None if self.job is None else self.job.spec

    @property
    def trainings(self) -> dict[str, TrainingView]:
        """The training of every group by name, the main one first."""
        main = {} if self.training is None else {MAIN: self.training}
        return {**main, **self.groups}


class Used(Protocol):
    """CPU and memory that a node uses."""

    @property
    def cpu(self) -> float | None:
        """In cores."""

    @property
    def memory(self) -> int | None:
        """In bytes."""


def combine(
    name: str,
    *,
    status: JobStatus | None,
    trainings: Mapping[str, TrainingView],
    usage: Mapping[str, Used] | None = None,
    manifest: dict[str, Any] | None = None,
    requested_sizes: Mapping[str, int] | None = None,
    suspend: bool | None = None,
    deleting: bool = False,
    created: float = 0.0,
    now: float,
) -> JobView:
    """Combine the two halves of a job into a view; either may be missing.

    ``trainings``: by group, the main one as :data:`MAIN`. ``usage``: what the nodes' platform
    measured, by their names; it takes precedence over what their agents report.
    """
    main = trainings.get(MAIN)
    if status is not None:
        phase, message = status.phase.value, headline(status)
    else:
        phase, message = ("", "") if main is None else (main.phase, main.reason)
    return JobView(
        name=name,
        phase=phase,
        message=message,
        manifest=manifest,
        status=status,
        training=main,
        groups={group: one for group, one in trainings.items() if group != MAIN},
        nodes=_nodes(status, trainings, usage or {}),
        failures=tuple(one.failure for one in trainings.values() if one.failure is not None),
        requested_sizes=dict(requested_sizes or {}),
        suspend=suspend,
        deleting=deleting,
        created=created,
        seen=now,
    )


def ended_view(view: JobView, how: str) -> JobView:
    """Return the last view of a job whose platform is gone: what was running has ended."""
    nodes = tuple(_stopped(node, how) for node in view.nodes)
    stopped = sum(before != now for before, now in zip(view.nodes, nodes, strict=True))
    message = f"{stopped} of {len(nodes)} nodes were ended with it" if stopped else ""
    over = view.status is not None and view.status.finished
    return replace(view, nodes=nodes, ended=how, message=view.message if over else message)


def document(view: JobView) -> dict[str, Any]:
    """Return the view as plain data with all fields, as commands print it. A status stays short."""
    plain: dict[str, Any] = _plain(view)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct) and not isinstance(value, JobStatus):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return msgspec.to_builtins(value)


# --- the trainings in a status ------------------------------------------------------------------


def with_trainings(status: JobStatus, trainings: Mapping[str, TrainingView]) -> JobStatus:
    """Return the status with the trimmed trainings in it. The main group's figures are also fields
    of the status itself, which tables and autoscalers read."""
    others = {group: seen for group, seen in trainings.items() if group != MAIN}
    listed = trimmed_groups(others)
    updated = replace(status, groups=listed, unlisted_groups=len(others) - len(listed))
    main = trainings.get(MAIN)
    if main is None:
        return updated
    return replace(
        updated,
        round=main.round or None,
        world_size=main.world_size or None,
        step=status.step if main.step is None else writable(main.step),
        total_steps=writable(main.total_steps),
        loss=main.loss,
        throughput=main.throughput,
        training=trimmed(main),
    )


def trainings_in(status: JobStatus) -> dict[str, TrainingView]:
    """Return the trainings in a status, with their nodes' names; an earlier operator wrote the main
    group's figures into the status only."""
    found = {} if status.training is None else {MAIN: _main_in(status, status.training)}
    return {name: _named(one) for name, one in {**found, **status.groups}.items()}


def _main_in(status: JobStatus, training: TrainingView) -> TrainingView:
    steps = [status.step, training.step, *(node.step for node in training.nodes.values())]
    return replace(
        training,
        round=status.round or 0,
        world_size=status.world_size or 0,
        step=max((step for step in steps if step is not None), default=None),
        total_steps=status.total_steps,
        loss=status.loss,
        throughput=status.throughput,
    )


def _named(training: TrainingView) -> TrainingView:
    return replace(
        training,
        nodes={
            key: replace(node, name=node.name or key, group=training.group)
            for key, node in training.nodes.items()
        },
    )


# --- the job in a sentence ----------------------------------------------------------------------


_TELLING = {
    JobPhase.SUCCEEDED: ConditionType.SUCCEEDED,
    JobPhase.FAILED: ConditionType.FAILED,
    JobPhase.SUSPENDED: ConditionType.SUSPENDED,
}

_WAITING = frozenset({JobPhase.CREATED, JobPhase.PENDING, JobPhase.RESTARTING})
"""Phases in which the condition Running, which is False, says what the job waits for."""


def headline(status: JobStatus) -> str:
    """Return a sentence that says why the job is in its phase."""
    problem = "" if status.finished else status.master_problem
    parts = (_headline(status), f"the job has no master: {problem}" if problem else "")
    return "; ".join(part for part in parts if part)


def _headline(status: JobStatus) -> str:
    condition = status.condition(_TELLING.get(status.phase, ConditionType.RUNNING))
    if condition is not None:
        if condition.status is ConditionStatus.TRUE or status.phase in _WAITING:
            return condition.message
        return ""
    waiting = [
        rank for rank in status.nodes if rank.phase in (NodePhase.WAITING, NodePhase.PENDING)
    ]
    return next((f"{rank.name or rank.role}: {rank.message}" for rank in waiting), "")


# --- nodes --------------------------------------------------------------------------------------


def _nodes(
    status: JobStatus | None,
    trainings: Mapping[str, TrainingView],
    usage: Mapping[str, Used],
) -> tuple[NodeView, ...]:
    failures = Counter[str]()
    for training in trainings.values():
        failures.update(training.worker_failures)
    members = {
        (node.name or key): _member(node, training)
        for training in trainings.values()
        for key, node in training.nodes.items()
    }
    if status is None:
        return tuple(_visitor(node, failures) for node in _all_members(trainings))
    listed = {rank.name for rank in status.nodes}
    known = tuple(
        _ranked(
            rank,
            members.get(rank.name),
            failures=failures[rank.name],
            usage=usage.get(rank.name),
        )
        for rank in status.nodes
    )
    if not status.unlisted:
        return known
    # For a large job the controller lists only nodes with a problem.
    return (
        *known,
        *(_visitor(node, failures) for node in _all_members(trainings) if node.name not in listed),
    )


def _all_members(trainings: Mapping[str, TrainingView]) -> list[NodeView]:
    """Return every node that a master sees; without a platform, several may have the same name."""
    return [
        _member(replace(node, name=node.name or key), training)
        for training in trainings.values()
        for key, node in training.nodes.items()
    ]


def _member(node: NodeView, training: TrainingView) -> NodeView:
    spare = node.state == MemberState.SPARE
    return replace(node, round=None if spare else training.round, group=training.group)


def _ranked(
    rank: NodeStatus, member: NodeView | None, *, failures: int, usage: Used | None
) -> NodeView:
    """Return the view of a rank in the status, with the master's half while its node is alive."""
    live = rank.phase in LIVE
    view = replace(
        (member if live else None) or NodeView(),
        name=rank.name,
        role=rank.role,
        rank=rank.rank,
        phase=rank.phase.value,
        id=rank.id,
        reason=rank.reason,
        message=rank.message,
        restarts=rank.restarts + failures,
        spent=rank.spent,
        memory_limit=rank.resources.limits.get("memory", ""),
    )
    if live and usage is not None:
        view = replace(view, cpu=cpu_text(usage.cpu), memory=memory_text(usage.memory))
    return view if view.host else replace(view, host=rank.host)


def _visitor(member: NodeView, failures: Mapping[str, int]) -> NodeView:
    """Return the view of a node without a rank in the status: it joined by itself, or is not
    listed."""
    return replace(
        member,
        id=member.member,
        phase=NodePhase.RUNNING.value,
        restarts=failures.get(member.name, 0),
    )


_UNFINISHED = frozenset(phase.value for phase in (*LIVE, NodePhase.WAITING))


def _stopped(node: NodeView, how: str) -> NodeView:
    if node.phase not in _UNFINISHED:
        return node
    return replace(
        node,
        phase=NodePhase.STOPPED.value,
        message=f"{how.lower()} while it was {node.phase.lower()}",
        state="",
        away=False,
        round=None,
        cpu="",
        memory="",
        worker_pids=(),
    )
