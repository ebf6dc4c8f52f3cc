"""The phase and the conditions of a job, for people and for programs.

A condition is listed from the first time it holds, and then always, as True or False; Running and
MasterReady are listed from the start, because their messages say what a job that does not run waits
for. lastTransitionTime changes only with the status; reason and message may change in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from resile.control.completion import Verdict
from resile.control.ledger import AT_WORK, Ledger
from resile.control.ordering import UP
from resile.control.scaling import asked_size, settle
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


def current_phase(ledger: Ledger) -> JobPhase:
    """The phase of a job that has not finished."""
    if ledger.spec.suspend:
        return JobPhase.SUSPENDED
    could_begin = _has_trained(ledger) or not _master_problem(ledger)
    if could_begin and not _short_roles(ledger) and _anybody_runs(ledger):
        return JobPhase.RUNNING
    if _has_trained(ledger):
        return JobPhase.RESTARTING
    asked_for = any(rank.id is not None for rank in ledger.ranks)
    return JobPhase.PENDING if asked_for else JobPhase.CREATED


def describe_job(ledger: Ledger, verdict: Verdict | None) -> None:
    """Set the ledger's phase and conditions. ``verdict``: the result, if the job just finished."""
    if verdict is not None:
        ledger.phase = verdict.phase
    elif not ledger.before.finished:
        ledger.phase = current_phase(ledger)
    _set(ledger, ConditionType.CREATED, True, reason="JobCreated", message="the job was accepted")
    _set_running(ledger)
    _set_restarting(ledger)
    _set_scaling(ledger)
    _set_suspended(ledger)
    _set_master_ready(ledger)
    if verdict is not None:
        kind = ConditionType(verdict.phase.value)
        _set(ledger, kind, True, reason=verdict.reason, message=verdict.message)


def _set(ledger: Ledger, kind: ConditionType, holds: bool, *, reason: str, message: str) -> None:
    ledger.conditions = with_condition(
        ledger.conditions, kind, holds=holds, reason=reason, message=message, now=ledger.now
    )


def _set_running(ledger: Ledger) -> None:
    running = ledger.phase is JobPhase.RUNNING
    _list(ledger, ConditionType.RUNNING, NOT_STARTED)
    if running:
        reason, message = "JobRunning", _head_count(ledger)
    elif ledger.phase in (JobPhase.SUSPENDED, JobPhase.SUCCEEDED, JobPhase.FAILED):
        reason, message = f"Job{ledger.phase.value}", f"the job is {ledger.phase.value.lower()}"
    else:
        reason, message = "TooFewNodes", _with_troubles(ledger, _shortage(ledger))
    if not running and not _has_trained(ledger):
        reason = NOT_STARTED
    _set(ledger, ConditionType.RUNNING, running, reason=reason, message=message)


def _list(ledger: Ledger, kind: ConditionType, reason: str) -> None:
    """List a condition that does not hold yet."""
    if not any(known.type is kind for known in ledger.conditions):
        first = _condition(kind, ConditionStatus.FALSE, reason=reason, message="", since=ledger.now)
        ledger.conditions = (*ledger.conditions, first)


def _has_trained(ledger: Ledger) -> bool:
    """Whether the job ever had the nodes it needs."""
    return any(
        known.type is ConditionType.RUNNING and known.reason != NOT_STARTED
        for known in ledger.conditions
    )


def _set_restarting(ledger: Ledger) -> None:
    coming_back = [
        rank
        for rank in ledger.ranks
        if rank.phase in (NodePhase.WAITING, NodePhase.PENDING) and rank.last_end is not None
    ]
    message = "no node is being replaced"
    if coming_back:
        message = _listed(rank.last_message for rank in coming_back)
    reason = "NodesRelaunched" if coming_back else "NodesReplaced"
    _set(ledger, ConditionType.RESTARTING, bool(coming_back), reason=reason, message=message)


def _set_scaling(ledger: Ledger) -> None:
    under_way = [name for name, role in ledger.roles.items() if role.scaling]
    if under_way:
        reason = ledger.roles[under_way[0]].scaling
        message = _listed(
            f"role {name} is scaling to {ledger.roles[name].wanted} nodes" for name in under_way
        )
    else:
        reason, message = "SizeReached", "every role has its wanted size"
    _set(ledger, ConditionType.SCALING, bool(under_way), reason=reason, message=message)


def _set_suspended(ledger: Ledger) -> None:
    suspended = ledger.phase is JobPhase.SUSPENDED
    if suspended:
        reason, message = "JobSuspended", "spec.suspend is true; set it to false to resume"
    elif ledger.phase in FINISHED:
        reason, message = f"Job{ledger.phase.value}", "the job has finished"
    else:
        reason, message = "JobResumed", "spec.suspend is false"
    _set(ledger, ConditionType.SUSPENDED, suspended, reason=reason, message=message)


def _master_problem(ledger: Ledger) -> str:
    return ledger.observed.master.problem if ledger.observed.master is not None else ""


def _set_master_ready(ledger: Ledger) -> None:
    """Set MasterReady, as soon as the platform reports on the master."""
    master = ledger.observed.master
    if master is None:
        return
    idle = ledger.phase in FINISHED or ledger.phase is JobPhase.SUSPENDED
    if master.problem:
        reason, message = MASTER_UNAVAILABLE, master.problem
    elif idle:
        reason, message = f"Job{ledger.phase.value}", "a job that does not train needs no master"
    elif master.ready:
        reason, message = "MasterAnswers", "the master is running and responds"
    else:
        reason, message = "MasterStarting", "the master is being started"
    known = next((one for one in ledger.conditions if one.type is ConditionType.MASTER_READY), None)
    if master.problem and (known is None or (known.reason, known.message) != (reason, message)):
        ledger.note(EventKind.NO_MASTER, message)
    if known is None:
        _list(ledger, ConditionType.MASTER_READY, reason)
    ready = master.ready and not idle and not master.problem
    _set(ledger, ConditionType.MASTER_READY, ready, reason=reason, message=message)


def _anybody_runs(ledger: Ledger) -> bool:
    return any(rank.phase is NodePhase.RUNNING for rank in ledger.ranks)


def _shortage(ledger: Ledger) -> str:
    """Describe what a job that does not run is missing."""
    short = _short_roles(ledger)
    return "; ".join(short) or (_running(ledger) if _anybody_runs(ledger) else "no node is running")


def _short_roles(ledger: Ledger) -> list[str]:
    """A clause for each required role that has too few nodes."""
    clauses = []
    for name, role in ledger.spec.roles.items():
        up = len(ledger.of_role(name, UP))
        if ledger.spec.requires(name) and up < role.size.min:
            clauses.append(f"role {name} has {up} of the {role.size.min} nodes it needs")
    return clauses


def _head_count(ledger: Ledger) -> str:
    return _with_troubles(ledger, "; ".join([_running(ledger), *_limited_sizes(ledger)]))


def _running(ledger: Ledger) -> str:
    running = sum(rank.phase is NodePhase.RUNNING for rank in ledger.ranks)
    wanted = sum(role.wanted for role in ledger.roles.values())
    return f"{running} of {wanted} nodes are running"


def _limited_sizes(ledger: Ledger) -> list[str]:
    """A clause for each role that cannot have the requested size; reported nowhere else."""
    clauses = []
    for name, role in ledger.spec.roles.items():
        asked = asked_size(ledger.spec, name, requests=ledger.observed.wanted)
        why = settle(role, asked).why
        if why:
            clauses.append(f"role {name} is limited to {ledger.roles[name].wanted}: {why}")
    return clauses


def _with_troubles(ledger: Ledger, message: str) -> str:
    troubles = [
        f"{rank.role} rank {rank.rank} {_trouble(rank)}"
        for rank in ledger.ranks
        if rank.phase in AT_WORK and rank.phase is not NodePhase.RUNNING
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
