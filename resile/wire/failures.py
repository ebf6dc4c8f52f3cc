"""The first failure of a training, as the view of a job shows it. Pure."""

from __future__ import annotations

from datetime import datetime, timezone

from resile.job.training import Failure
from resile.wire.messages import FailureReport

__all__ = ["failure_view"]


def failure_view(report: FailureReport, *, group: str = "") -> Failure:
    """Return the first failure of a group's training, as the view of a job shows it."""
    failed = report.failure
    return Failure(
        node=report.name,
        node_id=report.node,
        host=report.host,
        rank=failed.rank,
        local_rank=failed.local_rank,
        pid=failed.pid,
        exit_code=failed.exit_code,
        at=datetime.fromtimestamp(report.when, timezone.utc),
        message=failed.message,
        log=failed.log,
        others=report.others,
        group=group,
    )
