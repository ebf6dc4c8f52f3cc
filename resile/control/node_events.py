"""Events derived from a change of status: nodes that became pending or running. Pure.

The controller records why it replaces or stops a node. That a node is unschedulable, or was
started, is an observation of the platform; people want to read it in the same history.
"""

from __future__ import annotations

from datetime import datetime

from resile.control.observed import UNSCHEDULABLE
from resile.job.events import EventKind
from resile.job.node import NodePhase
from resile.job.status import DecisionNote, JobStatus, NodeStatus

__all__ = ["events_between"]


def events_between(
    before: JobStatus, after: JobStatus, *, now: datetime
) -> tuple[DecisionNote, ...]:
    """Return a note for each node that became unschedulable or running between two statuses."""
    known = {(rank.role, rank.rank): rank for rank in before.nodes}
    notes = []
    for rank in after.nodes:
        change = _change(known.get((rank.role, rank.rank)), rank)
        if change is not None:
            kind, sentence = change
            notes.append(
                DecisionNote(time=now, reason=kind.value, sentence=sentence, node=rank.name)
            )
    return tuple(notes)


def _change(before: NodeStatus | None, after: NodeStatus) -> tuple[EventKind, str] | None:
    same = before is not None and before.id == after.id
    if _unschedulable(after) and not (same and before is not None and _unschedulable(before)):
        return (
            EventKind.NODE_PENDING,
            f"{after.name} (rank {after.rank}) is pending: {after.message}",
        )
    runs = after.phase is NodePhase.RUNNING
    if runs and not (same and before is not None and before.phase is NodePhase.RUNNING):
        return EventKind.NODE_STARTED, f"{after.name} (rank {after.rank}) is running"
    return None


def _unschedulable(rank: NodeStatus) -> bool:
    return rank.phase is NodePhase.PENDING and rank.reason == UNSCHEDULABLE
