"""Apply observations to the status: update phases, and decide about each ended node.

Each end is handled once. It leaves the rank waiting, done or given up, and only ranks with a live
node are considered, so that a repeated report has no further effect.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from msgspec.structs import replace

from resile.control.observed import UNSCHEDULABLE, ObservedNode
from resile.control.relaunch import (
    EndedNode,
    RankOutcome,
    RelaunchDecision,
    SpentBudget,
    decide_relaunch,
)
from resile.control.status_draft import StatusDraft
from resile.job.events import EventKind
from resile.job.exits import ExitCause, NodeExit, classify, describe
from resile.job.node import LIVE, NodePhase
from resile.job.status import NodeStatus

__all__ = ["apply_observations", "apply_observations_after_end"]

_DELETED = NodeExit(reason=ExitCause.DELETED.value)


def apply_observations(draft: StatusDraft) -> str:
    """Update all ranks. Return why the job must fail, if a node's end requires it, else empty."""
    _adopt(draft)
    failures = []
    for rank in draft.ranks:
        if rank.phase not in LIVE:
            continue
        found = draft.seen(rank)
        if found is None:
            failures.append(_absent(draft, rank))
            continue
        rank = _refreshed(rank, found)
        if _cannot_be_created(found):
            failures.append(_request_again(draft, rank, _why_not_created(_exit_of(found))))
        elif found.live:
            draft.put(_with_waiting_since(draft, rank))
        else:
            failures.append(_ended(draft, rank, end=_exit_of(found), at=found.ended_at))
    return next((failure for failure in failures if failure), "")


def apply_observations_after_end(draft: StatusDraft) -> None:
    """Update the nodes that a finished job left running; they are not replaced."""
    for rank in draft.ranks:
        if rank.phase not in LIVE:
            continue
        found = draft.seen(rank)
        if found is None:
            if draft.was_there(rank) or _overdue(draft, rank):
                draft.put(replace(rank, phase=NodePhase.STOPPED, message="no longer exists"))
        elif found.live:
            draft.put(_with_waiting_since(draft, _refreshed(rank, found)))
        else:
            end = _exit_of(found)
            done = classify(end) is ExitCause.COMPLETED
            phase = NodePhase.SUCCEEDED if done else NodePhase.FAILED
            draft.put(replace(rank, phase=phase, message=describe(end), ended_at=found.ended_at))


def _adopt(draft: StatusDraft) -> None:
    """Take over live nodes of ranks that are missing in the status.

    That happens when a status was lost. Of several nodes of one rank the newest is kept.
    """
    known = {(rank.role, rank.rank) for rank in draft.before.nodes}
    for found in sorted(draft.observed.nodes, key=lambda found: found.node.id):
        node = found.node
        stray = (node.role, node.rank) not in known and node.role in draft.spec.roles
        if stray and found.live and not found.stopping:
            rank = NodeStatus(
                role=node.role, rank=node.rank, id=node.id, name=node.name, phase=found.phase
            )
            draft.put(rank)
            draft.note(
                EventKind.NODE_ADOPTED, f"{node.name} is already running and is kept", node.name
            )


def _refreshed(rank: NodeStatus, found: ObservedNode) -> NodeStatus:
    return replace(
        rank,
        phase=found.phase if found.live else rank.phase,
        reason=found.reason if found.live else rank.reason,
        message=found.message if found.live else rank.message,
        host=found.host or rank.host,
        started_at=found.started_at or rank.started_at,
        seen=rank.seen or found.made,
        ready=found.ready and found.live,
    )


def _with_waiting_since(draft: StatusDraft, rank: NodeStatus) -> NodeStatus:
    """Add to a node that has long been unschedulable since when. Not for how long: that would
    change the status in every reconcile."""
    if rank.phase is not NodePhase.PENDING or rank.reason != UNSCHEDULABLE or not rank.asked_at:
        return rank
    reported_at = rank.asked_at + draft.policy.pending_notice_after
    draft.wake_at(reported_at)
    if draft.now < reported_at:
        return rank
    since = f"requested at {rank.asked_at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
    detail = f": {rank.message}" if rank.message else ""
    return replace(rank, message=f"{since} and still unschedulable{detail}")


def _exit_of(found: ObservedNode) -> NodeExit:
    if found.exit is not None:
        return found.exit
    return NodeExit(code=0) if found.phase is NodePhase.SUCCEEDED else NodeExit()


def _absent(draft: StatusDraft, rank: NodeStatus) -> str:
    """Handle a live node that is not reported: deleted if it was seen, else late for a while."""
    if draft.was_there(rank):
        return _ended(draft, rank, end=_DELETED, at=None)
    if not _overdue(draft, rank):
        return ""
    return _request_again(draft, rank, "was requested and never appeared")


def _cannot_be_created(found: ObservedNode) -> bool:
    """Return whether the platform cannot create this particular node, but may create another."""
    never = found.exit is not None and classify(found.exit) is ExitCause.NEVER_STARTED
    return never and not found.made


def _why_not_created(end: NodeExit) -> str:
    return f"{describe(end)}: {end.message}" if end.message else describe(end)


def _request_again(draft: StatusDraft, rank: NodeStatus, what: str) -> str:
    """Replace a node that never existed; no budget is spent."""
    sentence = f"{rank.name} (rank {rank.rank}) {what}; requested again"
    fate = RelaunchDecision(
        outcome=RankOutcome.RELAUNCH, sentence=sentence, quick_crashes=rank.quick_crashes
    )
    return _apply(draft, rank, fate=fate, cause=ExitCause.NEVER_STARTED, at=draft.now)


def _overdue(draft: StatusDraft, rank: NodeStatus) -> bool:
    deadline = (rank.asked_at or draft.now) + draft.policy.unseen_timeout
    draft.wake_at(deadline)
    return draft.now >= deadline


def _ended(draft: StatusDraft, rank: NodeStatus, *, end: NodeExit, at: datetime | None) -> str:
    ended_at = at or draft.now
    ran_for = max(timedelta(), ended_at - rank.started_at) if rank.started_at else timedelta()
    fate = _fate_after_training(draft, rank, end) or decide_relaunch(
        draft.spec,
        EndedNode(role=rank.role, rank=rank, end=end, ran_for=ran_for),
        spent=SpentBudget(by_role=draft.roles[rank.role].spent, by_job=draft.spent),
    )
    return _apply(draft, rank, fate=fate, cause=classify(end), at=ended_at)


def _fate_after_training(
    draft: StatusDraft, rank: NodeStatus, end: NodeExit
) -> RelaunchDecision | None:
    """The decision if the training of the node's group is over: the node is not replaced, however
    it ended. None if it is not over."""
    report = draft.report_on(rank.role)
    if report is None:
        return None
    if not report.succeeded:
        sentence = f"{rank.name} {describe(end)} after the training had failed"
        return RelaunchDecision(outcome=RankOutcome.GIVE_UP, sentence=sentence)
    sentence = f"{rank.name} {describe(end)} after the training had succeeded"
    return RelaunchDecision(outcome=RankOutcome.DONE, sentence=sentence)


_PHASE = {
    RankOutcome.DONE: NodePhase.SUCCEEDED,
    RankOutcome.RELAUNCH: NodePhase.WAITING,
    RankOutcome.GIVE_UP: NodePhase.FAILED,
    RankOutcome.FAIL_JOB: NodePhase.FAILED,
}
_NOTE = {
    RankOutcome.DONE: EventKind.NODE_SUCCEEDED,
    RankOutcome.RELAUNCH: EventKind.NODE_RELAUNCHED,
    RankOutcome.GIVE_UP: EventKind.NODE_GIVEN_UP,
    RankOutcome.FAIL_JOB: EventKind.NODE_GIVEN_UP,
}


def _apply(
    draft: StatusDraft, rank: NodeStatus, *, fate: RelaunchDecision, cause: ExitCause, at: datetime
) -> str:
    again = fate.outcome is RankOutcome.RELAUNCH
    draft.suspect(rank.host, cause)
    draft.put(
        replace(
            rank,
            phase=_PHASE[fate.outcome],
            reason=cause.value,
            message=fate.sentence,
            last_end=cause,
            last_message=fate.sentence,
            ended_at=at,
            relaunch_at=draft.now + fate.delay if again else None,
            restarts=rank.restarts + int(again),
            spent=rank.spent + int(fate.spends),
            quick_crashes=fate.quick_crashes,
            memory=fate.memory or rank.memory,
        )
    )
    if again:
        draft.count(rank.role, spends=fate.spends)
    draft.note(_NOTE[fate.outcome], fate.sentence, rank.name)
    return fate.sentence if fate.outcome is RankOutcome.FAIL_JOB else ""
