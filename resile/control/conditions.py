"""The phase and the conditions of a job, for people and for programs.

A condition is listed from the first time it holds, and then always, as True or False; Running and
MasterReady are listed from the start, because their messages say what a job that does not run waits
for. lastTransitionTime changes only with the status; reason and message may change in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from resile.control.completion import JobResult
from resile.control.sizing import UP, feasible_size, requested_size
from resile.control.status_draft import ACTIVE_PHASES, StatusDraft
from resile.job.events import EventKind
from resile.job.node import NodePhase
from resile.job.status import (
    FINISHED,
    MASTER_UNAVAILABLE,
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    NodeStatus,
)

__all__ = ["current_phase", "describe_job", "with_condition"]

NOT_STARTED = "NotStarted"
"""The reason of Running until it holds for the first time."""

_MOST_LISTED = 3
"""Nodes in one message: people do not read longer lists."""


def with_condition(
    conditions: Iterable[Condition],
    kind: ConditionType,
    *,
    holds: bool,
    reason: str,
    message: str,
    now: datetime,
) -> tuple[Condition, ...]:
    """The conditions with this one added or updated."""
    listed = list(conditions)
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    place = next((n for n, known in enumerate(listed) if known.type is kind), None)
    if place is None:
        if not holds:
            return tuple(listed)
        place = len(listed)
        listed.append(_condition(kind, status, reason=reason, message=message, since=now))
    known = listed[place]
    since = known.last_transition_time if known.status is status else now
    listed[place] = _condition(kind, status, reason=reason, message=message, since=since)
    return tuple(listed)


def _condition(
    kind: ConditionType, status: ConditionStatus, *, reason: str, message: str, since: datetime
) -> Condition:
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=since
    )


def current_phase(draft: StatusDraft) -> JobPhase:
    """The phase of a job that has not finished."""
    if draft.spec.suspend:
        return JobPhase.SUSPENDED
    could_begin = _has_trained(draft) or not _master_problem(draft)
    if could_begin and not _short_roles(draft) and _anybody_runs(draft):
        return JobPhase.RUNNING
    if _has_trained(draft):
        return JobPhase.RESTARTING
    asked_for = any(rank.id is not None for rank in draft.ranks)
    return JobPhase.PENDING if asked_for else JobPhase.CREATED


def describe_job(draft: StatusDraft, verdict: JobResult | None) -> None:
    """Set the draft's phase and conditions. ``verdict``: the result, if the job just finished."""
    if verdict is not None:
        draft.phase = verdict.phase
    elif not draft.before.finished:
        draft.phase = current_phase(draft)
    _set(draft, ConditionType.CREATED, True, reason="JobCreated", message="the job was accepted")
    _set_running(draft)
    _set_restarting(draft)
    _set_scaling(draft)
    _set_suspended(draft)
    _set_master_ready(draft)
    if verdict is not None:
        kind = ConditionType(verdict.phase.value)
        _set(draft, kind, True, reason=verdict.reason, message=verdict.message)


def _set(
    draft: StatusDraft, kind: ConditionType, holds: bool, *, reason: str, message: str
) -> None:
    draft.conditions = with_condition(
        draft.conditions, kind, holds=holds, reason=reason, message=message, now=draft.now
    )


def _set_running(draft: StatusDraft) -> None:
    running = draft.phase is JobPhase.RUNNING
    _list(draft, ConditionType.RUNNING, NOT_STARTED)
    if running:
        reason, message = "JobRunning", _head_count(draft)
    elif draft.phase in (JobPhase.SUSPENDED, JobPhase.SUCCEEDED, JobPhase.FAILED):
        reason, message = f"Job{draft.phase.value}", f"the job is {draft.phase.value.lower()}"
    else:
        reason, message = "TooFewNodes", _with_troubles(draft, _shortage(draft))
    if not running and not _has_trained(draft):
        reason = NOT_STARTED
    _set(draft, ConditionType.RUNNING, running, reason=reason, message=message)


def _list(draft: StatusDraft, kind: ConditionType, reason: str) -> None:
    """List a condition that does not hold yet."""
    if not any(known.type is kind for known in draft.conditions):
        first = _condition(kind, ConditionStatus.FALSE, reason=reason, message="", since=draft.now)
        draft.conditions = (*draft.conditions, first)


def _has_trained(draft: StatusDraft) -> bool:
    """Return whether the job ever had the nodes it needs."""
    return any(
        known.type is ConditionType.RUNNING and known.reason != NOT_STARTED
        for known in draft.conditions
    )


def _set_restarting(draft: StatusDraft) -> None:
    coming_back = [
        rank
        for rank in draft.ranks
        if rank.phase in (NodePhase.WAITING, NodePhase.PENDING) and rank.last_end is not None
    ]
    message = "no node is being replaced"
    if coming_back:
        message = _listed(rank.last_message for rank in coming_back)
    reason = "NodesRelaunched" if coming_back else "NodesReplaced"
    _set(draft, ConditionType.RESTARTING, bool(coming_back), reason=reason, message=message)


def _set_scaling(draft: StatusDraft) -> None:
    under_way = [name for name, role in draft.roles.items() if role.scaling]
    if under_way:
        reason = draft.roles[under_way[0]].scaling
        message = _listed(
            f"role {name} is scaling to {draft.roles[name].wanted} nodes" for name in under_way
        )
    else:
        reason, message = "SizeReached", "every role has its wanted size"
    _set(draft, ConditionType.SCALING, bool(under_way), reason=reason, message=message)


def _set_suspended(draft: StatusDraft) -> None:
    suspended = draft.phase is JobPhase.SUSPENDED
    if suspended:
        reason, message = "JobSuspended", "spec.suspend is true; set it to false to resume"
    elif draft.phase in FINISHED:
        reason, message = f"Job{draft.phase.value}", "the job has finished"
    else:
        reason, message = "JobResumed", "spec.suspend is false"
    _set(draft, ConditionType.SUSPENDED, suspended, reason=reason, message=message)


def _master_problem(draft: StatusDraft) -> str:
    return draft.observed.master.problem if draft.observed.master is not None else ""


def _set_master_ready(draft: StatusDraft) -> None:
    """Set MasterReady, as soon as the platform reports on the master."""
    master = draft.observed.master
    if master is None:
        return
    idle = draft.phase in FINISHED or draft.phase is JobPhase.SUSPENDED
    if master.problem:
        reason, message = MASTER_UNAVAILABLE, master.problem
    elif idle:
        reason, message = f"Job{draft.phase.value}", "a job that does not train needs no master"
    elif master.ready:
        reason, message = "MasterAnswers", "the master is running and responds"
    else:
        reason, message = "MasterStarting", "the master is being started"
    known = next((one for one in draft.conditions if one.type is ConditionType.MASTER_READY), None)
    if master.problem and (known is None or (known.reason, known.message) != (reason, message)):
        draft.note(EventKind.NO_MASTER, message)
    if known is None:
        _list(draft, ConditionType.MASTER_READY, reason)
    ready = master.ready and not idle and not master.problem
    _set(draft, ConditionType.MASTER_READY, ready, reason=reason, message=message)


def _anybody_runs(draft: StatusDraft) -> bool:
    return any(rank.phase is NodePhase.RUNNING for rank in draft.ranks)


def _shortage(draft: StatusDraft) -> str:
    """Describe what a job that does not run is missing."""
    short = _short_roles(draft)
    return "; ".join(short) or (_running(draft) if _anybody_runs(draft) else "no node is running")


def _short_roles(draft: StatusDraft) -> list[str]:
    """A clause for each required role that has too few nodes."""
    clauses = []
    for name, role in draft.spec.roles.items():
        up = len(draft.of_role(name, UP))
        if draft.spec.requires(name) and up < role.size.min:
            clauses.append(f"role {name} has {up} of the {role.size.min} nodes it needs")
    return clauses


def _head_count(draft: StatusDraft) -> str:
    return _with_troubles(draft, "; ".join([_running(draft), *_limited_sizes(draft)]))


def _running(draft: StatusDraft) -> str:
    running = sum(rank.phase is NodePhase.RUNNING for rank in draft.ranks)
    wanted = sum(role.wanted for role in draft.roles.values())
    return f"{running} of {wanted} nodes are running"


def _limited_sizes(draft: StatusDraft) -> list[str]:
    """A clause for each role that cannot have the requested size; reported nowhere else."""
    clauses = []
    for name, role in draft.spec.roles.items():
        asked = requested_size(draft.spec, name, requests=draft.observed.wanted)
        why = feasible_size(role, asked).why
        if why:
            clauses.append(f"role {name} is limited to {draft.roles[name].wanted}: {why}")
    return clauses


def _with_troubles(draft: StatusDraft, message: str) -> str:
    troubles = [
        f"{rank.role} rank {rank.rank} {_trouble(rank)}"
        for rank in draft.ranks
        if rank.phase in ACTIVE_PHASES and rank.phase is not NodePhase.RUNNING
    ]
    return "; ".join([message, _listed(troubles)] if troubles else [message])


def _trouble(rank: NodeStatus) -> str:
    state = f"is {rank.phase.value.lower()}"
    return f"{state}: {rank.message}" if rank.message else state


def _listed(sentences: Iterable[str]) -> str:
    listed = list(sentences)
    shown = [sentence for sentence in listed if sentence][:_MOST_LISTED]
    more = len(listed) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
