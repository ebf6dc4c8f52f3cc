"""A manifest that the API server took and that cannot be run: said in the job's status. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from resile.job.status import Condition, ConditionStatus, ConditionType, JobStatus

__all__ = ["INVALID", "refused_status"]

INVALID = "InvalidSpec"


def refused_status(
    before: JobStatus, why: str, *, generation: int | None, now: datetime
) -> JobStatus:
    """The status of a job whose manifest has problems.

    Nothing else changes: nodes that run go on as they were, and a corrected manifest is taken up.
    """
    known = before.condition(ConditionType.CREATED)
    same = known is not None and known.status is ConditionStatus.FALSE
    since = known.last_transition_time if known is not None and same else now
    refused = Condition(
        type=ConditionType.CREATED,
        status=ConditionStatus.FALSE,
        reason=INVALID,
        message=why,
        last_transition_time=since,
        observed_generation=generation,
    )
    others = [one for one in before.conditions if one.type is not ConditionType.CREATED]
    return replace(before, conditions=(refused, *others), observed_generation=generation)
