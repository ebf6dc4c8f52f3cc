"""What a job's controller hears from its master and tells it, on every platform. Pure."""

from __future__ import annotations

from datetime import datetime, timezone

from resile.control.observed import INVALID_SPEC, UNSCHEDULABLE, MasterReport
from resile.job.node import LIVE, NodePhase
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.wire.messages import Outcome
from resile.wire.views import JobPicture

__all__ = ["nodes_to_come", "verdict_of"]


_LONGEST_REASON = 1024


def verdict_of(seen: JobPicture) -> MasterReport | None:
    """What the master says about the training, once it is over."""
    training = seen.training
    if training is None or training.phase not in {outcome.value for outcome in Outcome}:
        return None
    return MasterReport(
        succeeded=training.phase == Outcome.SUCCEEDED.value,
        reason=training.reason[:_LONGEST_REASON],
        at=datetime.fromtimestamp(seen.seen, timezone.utc),
    )


_NOT_SOON = frozenset({UNSCHEDULABLE, INVALID_SPEC})


def nodes_to_come(job: ElasticJob, status: JobStatus) -> int | None:
    """How many nodes the rendezvous may count on: those that run or are being started.

    A node that finds no room, or waits for another manifest, may not come for hours, so nobody
    should wait for it. None where
    nobody is to meet, or not now: the wait for too few nodes must not begin.
    """
    training = job.spec.training_roles()
    if not training or job.spec.suspend:
        return None
    coming = [
        rank
        for rank in status.nodes
        if rank.role in training
        and rank.phase in LIVE
        and not (rank.phase is NodePhase.PENDING and rank.reason in _NOT_SOON)
    ]
    return len(coming)
