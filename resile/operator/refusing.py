"""A manifest that the API server took and that cannot be run: said in the job's status. Pure."""

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
    """The status of a job whose manifest has problems. ``before``: as it is written, if that is
    another.

    Nothing else changes: nodes that run go on as they were, and a corrected manifest is taken up.
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
