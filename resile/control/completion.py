"""Decide whether a job has finished, and how.

It has **failed** when the training of a required group has, when a failure exceeded the job's
backoffLimit, when a role's failurePolicy says so, or when its deadline has passed. Under BelowMin,
giving up a rank does not by itself end a job that can continue without it.

It has **succeeded** when the roles of its success condition are complete: all of them, or any one
under success.policy Any. A role of a group completes with the group's training, once the nodes have
left. Any other completes by its nodes: all active ones (at least MIN), one of them, or rank 0, as
its successPolicy says. A rank for which there is no room does not delay that, whether it never ran
or was taken away; one that failed does, until it has run again or was given up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from resile.control.observed import NO_ROOM, GroupReport
from resile.control.status_draft import ACTIVE_PHASES, SUSPENDED, StatusDraft
from resile.job.exits import DISRUPTIONS
from resile.job.node import NodePhase
from resile.job.spec.role import FailurePolicy, SuccessPolicy
from resile.job.status import JobPhase, NodeStatus

__all__ = ["JobResult", "decide_completion"]


@dataclass(frozen=True)
class JobResult:
    """The result of a job that has finished, or of a role that is complete."""

    phase: JobPhase
    reason: str
    message: str


def decide_completion(draft: StatusDraft, *, broken: str) -> JobResult | None:
    """The result of the job; None while it continues. ``broken``: why a node's end fails it."""
    if broken:
        return JobResult(JobPhase.FAILED, "BackoffLimitExceeded", broken)
    return _failed_training(draft) or _completed(draft) or _given_up(draft) or _too_late(draft)


def _failed_training(draft: StatusDraft) -> JobResult | None:
    """Failure of a group that the job requires, once its nodes have left."""
    spec = draft.spec
    for group, roles in draft.trainings.items():
        report = draft.observed.reports.get(group)
        if report is None or report.succeeded or not any(map(spec.requires, roles)):
            continue
        if _has_left(draft, spec.worlds().get(group, ()), report):
            reason = report.reason if group == spec.main_group else f"{group}: {report.reason}"
            return JobResult(JobPhase.FAILED, "TrainingFailed", reason)
    return None


def _has_left(draft: StatusDraft, roles: Collection[str], report: GroupReport) -> bool:
    """Return whether the nodes of a finished training have ended. They end by themselves, so that
    their last output can be read; after ``exit_timeout`` a node that hangs is not waited for."""
    still_there = any(
        found.phase is NodePhase.RUNNING and found.node.role in roles
        for found in draft.observed.nodes
    )
    deadline = report.at + draft.policy.exit_timeout
    if still_there and draft.now < deadline:
        draft.wake_at(deadline)
        return False
    return True


def _completed(draft: StatusDraft) -> JobResult | None:
    """Success, if the roles of the success condition are complete."""
    results = {role: _why_complete(draft, role) for role in draft.spec.success_roles()}
    complete = [result for result in results.values() if result is not None]
    enough = 1 if draft.spec.success.policy == "Any" else len(results)
    if len(complete) < enough:
        return None
    reasons = " and ".join(dict.fromkeys(result.message for result in complete))
    return JobResult(JobPhase.SUCCEEDED, complete[0].reason, reasons)


def _why_complete(draft: StatusDraft, role: str) -> JobResult | None:
    """Return how the role completed; None if it has not."""
    report = draft.report_on(role)
    if report is not None:
        roles = next(roles for roles in draft.trainings.values() if role in roles)
        if not report.succeeded or not _has_left(draft, roles, report):
            return None
        return JobResult(JobPhase.SUCCEEDED, "TrainingSucceeded", report.reason)
    done = draft.of_role(role, {NodePhase.SUCCEEDED})
    if not _enough_done(draft, role, done):
        return None
    message = f"{len(done)} {role} node{'s' if len(done) > 1 else ''} completed"
    return JobResult(JobPhase.SUCCEEDED, "NodesCompleted", message)


def _enough_done(draft: StatusDraft, role: str, done: Collection[NodeStatus]) -> bool:
    """Return whether enough nodes have completed for the role's successPolicy."""
    spec = draft.spec.roles[role]
    if spec.success_policy is SuccessPolicy.ANY:
        return bool(done)
    if spec.success_policy is SuccessPolicy.RANK_0:
        return any(rank.rank == 0 for rank in done)
    if len(done) < max(1, spec.size.min) or draft.roles[role].wanted == 0:
        return False  # a role scaled to zero is not complete: its work is only postponed
    return not any(_holds_up(rank) for rank in draft.of_role(role))


def _holds_up(rank: NodeStatus) -> bool:
    if rank.phase is NodePhase.STOPPED:
        return rank.reason == SUSPENDED
    if rank.phase is NodePhase.PENDING and rank.reason in NO_ROOM:
        return rank.last_end is not None and rank.last_end not in DISRUPTIONS
    return rank.phase in ACTIVE_PHASES


def _given_up(draft: StatusDraft) -> JobResult | None:
    """Failure because of nodes that were given up, by their roles' failurePolicy."""
    for name, role in draft.spec.roles.items():
        policy = draft.spec.failure_policy(name)
        given_up = draft.of_role(name, {NodePhase.FAILED})
        if not given_up or policy is FailurePolicy.IGNORE or draft.report_on(name) is not None:
            continue
        last = max(given_up, key=lambda rank: rank.ended_at or draft.now)
        if policy is FailurePolicy.ANY_NODE:
            message = f"failurePolicy of role {name} is AnyNode: {last.last_message}"
            return JobResult(JobPhase.FAILED, "NodeFailed", message)
        reachable = role.size.max - len(given_up)
        if reachable < role.size.min:
            message = (
                f"role {name} needs {role.size.min} nodes and can have {reachable}: "
                f"{last.last_message}"
            )
            return JobResult(JobPhase.FAILED, "TooFewNodes", message)
    return None


def _too_late(draft: StatusDraft) -> JobResult | None:
    limit = draft.spec.active_deadline_seconds
    if limit is None or draft.start_time is None or draft.spec.suspend:
        return None
    deadline = draft.start_time + timedelta(seconds=limit)
    if draft.now < deadline:
        draft.wake_at(deadline)
        return None
    message = f"the job ran longer than activeDeadlineSeconds ({limit:g} s)"
    return JobResult(JobPhase.FAILED, "DeadlineExceeded", message)
