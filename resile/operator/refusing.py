"""The InvalidSpec condition: the API server accepted a manifest that cannot be run. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from resile.control.observed import INVALID_SPEC
from resile.job.compact import compact
from resile.job.status import Condition, ConditionStatus, ConditionType, JobStatus

__all__ = ["refused_status"]


def refused_status(
    status: JobStatus,
    why: str,
    *,
    generation: int | None,
    now: datetime,
    before: JobStatus | None = None,
) -> JobStatus:
    """Return the status of a job whose manifest has problems. ``before``: the status as written, if
    that is another.

    Nothing else changes: running nodes continue, and a corrected manifest takes effect.
    """
    known = (before or status).condition(ConditionType.CREATED)
    same = known is not None and known.status is ConditionStatus.FALSE
    since = known.last_transition_time if known is not None and same else now
    refused = Condition(
        type=ConditionType.CREATED,
        status=ConditionStatus.FALSE,
        reason=INVALID_SPEC,
        message=why,
        last_transition_time=since,
        observed_generation=generation,
    )
    others = [one for one in status.conditions if one.type is not ConditionType.CREATED]
    told = replace(status, conditions=(refused, *others), observed_generation=generation)
    return compact(told)
