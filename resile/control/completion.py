"""Whether the job is over, and how it ended.

It has **failed** when the master says so, when a failure exceeded the job's backoffLimit, when a
required role cannot have MIN nodes any more, or when its deadline has passed. A rank that was
given up alone does not end a job that can go on without it.

It has **succeeded** when in every role that counts all nodes at work have completed, and at least
MIN of them. A rank for which there is no room does not hold it up, whether it never ran or was
taken away; one that failed does, until it has been run again or given up. Where the job has a
master its verdict is enough, once the nodes have left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from resile.control.ledger import AT_WORK, SUSPENDED, Ledger
from resile.control.observed import NO_ROOM, MasterReport
from resile.job.exits import DISRUPTIONS
from resile.job.node import NodePhase
from resile.job.status import JobPhase, NodeStatus

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True)
class Verdict:
    """How the job ended."""

    phase: JobPhase
    reason: str
    message: str


def judge(ledger: Ledger, *, broken: str) -> Verdict | None:
    """The verdict on the job; None while it goes on. ``broken``: why a node's end fails it."""
    if broken:
        return Verdict(JobPhase.FAILED, "BackoffLimitExceeded", broken)
    report = ledger.observed.master
    if report is not None:
        return _by_master(ledger, report) or _too_late(ledger)
    return _by_nodes(ledger) or _too_small(ledger) or _too_late(ledger)


def _by_master(ledger: Ledger, report: MasterReport) -> Verdict | None:
    """What the master said, once the nodes have left: by themselves, so that their last words can
    be read."""
    spec = ledger.spec
    roles = spec.success_roles() if report.succeeded else spec.training_roles()
    still_there = any(
        found.phase is NodePhase.RUNNING and found.node.role in roles
        for found in ledger.observed.nodes
    )
    patience_ends = report.at + ledger.policy.leave_time
    if still_there and ledger.now < patience_ends:
        ledger.wake_at(patience_ends)
        return None
    if report.succeeded:
        return Verdict(JobPhase.SUCCEEDED, "TrainingSucceeded", report.reason)
    return Verdict(JobPhase.FAILED, "TrainingFailed", report.reason)


def _by_nodes(ledger: Ledger) -> Verdict | None:
    counts = []
    for role in ledger.spec.success_roles():
        done = len(ledger.of_role(role, {NodePhase.SUCCEEDED}))
        if done < max(1, ledger.spec.roles[role].size.min) or ledger.roles[role].wanted == 0:
            return None  # a role scaled to nothing has not completed: its work was put aside
        if any(_holds_up(rank) for rank in ledger.of_role(role)):
            return None
        counts.append(f"{done} {role} node{'s' if done > 1 else ''}")
    return Verdict(JobPhase.SUCCEEDED, "NodesCompleted", f"{' and '.join(counts)} completed")


def _holds_up(rank: NodeStatus) -> bool:
    if rank.phase is NodePhase.STOPPED:
        return rank.reason == SUSPENDED
    if rank.phase is NodePhase.PENDING and rank.reason in NO_ROOM:
        return rank.last_end is not None and rank.last_end not in DISRUPTIONS
    return rank.phase in AT_WORK


def _too_small(ledger: Ledger) -> Verdict | None:
    for name, role in ledger.spec.roles.items():
        given_up = ledger.of_role(name, {NodePhase.FAILED})
        reachable = role.size.max - len(given_up)
        if given_up and reachable < role.size.min and ledger.spec.requires(name):
            last = max(given_up, key=lambda rank: rank.ended_at or ledger.now)
            message = (
                f"role {name} needs {role.size.min} nodes and can have {reachable}: "
                f"{last.last_message}"
            )
            return Verdict(JobPhase.FAILED, "TooFewNodes", message)
    return None


def _too_late(ledger: Ledger) -> Verdict | None:
    limit = ledger.spec.active_deadline_seconds
    if limit is None or ledger.start_time is None or ledger.spec.suspend:
        return None
    deadline = ledger.start_time + timedelta(seconds=limit)
    if ledger.now < deadline:
        ledger.wake_at(deadline)
        return None
    message = f"the job ran longer than activeDeadlineSeconds ({limit:g} s)"
    return Verdict(JobPhase.FAILED, "DeadlineExceeded", message)
