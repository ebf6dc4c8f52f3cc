"""The controller: from spec, status, observations and the time, to actions and a new status.

A pure function, called whenever something may have changed, as often as needed: on an unchanged
report it requests nothing new. All memory is in the status, so the caller stores it before it
carries out the actions, and may crash at any point.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from resile.control.absorb import absorb, absorb_leftovers
from resile.control.actions import Decision
from resile.control.completion import Verdict, judge
from resile.control.conditions import describe_job
from resile.control.ledger import AT_WORK, SUSPENDED, Ledger
from resile.control.observed import Observed
from resile.control.policy import DEFAULT_POLICY, Policy
from resile.control.staffing import (
    note_sizes_reached,
    resize,
    retire_all,
    settle_sizes,
    start_waiting,
    sweep,
    widen_search,
)
from resile.job.events import EventKind
from resile.job.node import NodePhase
from resile.job.spec import CleanPolicy, ElasticJob
from resile.job.status import JobPhase, JobStatus

__all__ = ["reconcile"]


def reconcile(
    job: ElasticJob,
    status: JobStatus,
    observed: Observed,
    now: datetime,
    *,
    policy: Policy = DEFAULT_POLICY,
) -> Decision:
    """Decide what to do about ``job`` now. ``now`` must have a time zone."""
    draft = Ledger(job, status, observed=observed, now=now, policy=policy)
    if observed.deleting:
        retire_all(draft, "Deleted", "the job is being deleted")
    elif status.finished:
        absorb_leftovers(draft)
    else:
        _carry_on(draft)
    _expire(draft)
    sweep(draft)
    return Decision(
        actions=tuple(draft.actions),
        status=draft.close(),
        notes=tuple(draft.notes),
        removable=_why_removable(draft),
        requeue_after=_until(draft),
    )


def _carry_on(draft: Ledger) -> None:
    """Reconcile a job that has not finished."""
    if draft.start_time is None and not draft.spec.suspend:
        draft.start_time = draft.now
    settle_sizes(draft)
    broken = absorb(draft)
    verdict = judge(draft, broken=broken)
    if verdict is not None:
        _finish(draft, verdict)
    elif draft.spec.suspend:
        _suspend(draft)
    else:
        _note_resumption(draft)
        resize(draft)
        widen_search(draft)
        start_waiting(draft)
    note_sizes_reached(draft)
    describe_job(draft, verdict)


def _finish(draft: Ledger, verdict: Verdict) -> None:
    draft.completion_time = draft.now
    ended_well = verdict.phase is JobPhase.SUCCEEDED
    draft.note(EventKind.JOB_SUCCEEDED if ended_well else EventKind.JOB_FAILED, verdict.message)
    keep_running = draft.spec.clean_pod_policy is CleanPolicy.NONE
    retire_all(
        draft,
        f"Job{verdict.phase.value}",
        f"the job has {verdict.phase.value.lower()}",
        phases={NodePhase.WAITING} if keep_running else AT_WORK,
    )


def _suspend(draft: Ledger) -> None:
    draft.start_time = None
    if draft.before.phase is not JobPhase.SUSPENDED:
        draft.note(EventKind.JOB_SUSPENDED, "all nodes are stopped because spec.suspend is true")
    retire_all(draft, SUSPENDED, "the job is suspended")


def _note_resumption(draft: Ledger) -> None:
    if draft.before.phase is JobPhase.SUSPENDED:
        draft.note(EventKind.JOB_RESUMED, "the job resumes because spec.suspend is false")


def _expire(draft: Ledger) -> None:
    """Stop everything when the job expires, including nodes that cleanPodPolicy None kept."""
    if draft.expires_at is not None:
        draft.wake_at(draft.expires_at)
    if draft.expired and any(rank.phase in AT_WORK for rank in draft.ranks):
        why = _ttl_has_passed(draft)
        draft.note(EventKind.JOB_EXPIRED, f"{why}; nodes that still run are stopped")
        retire_all(draft, "JobExpired", why)


def _ttl_has_passed(draft: Ledger) -> str:
    return f"ttlSecondsAfterFinished ({draft.spec.ttl_seconds_after_finished:g} s) has passed"


def _why_removable(draft: Ledger) -> str:
    """Why the job's record may be removed, once nothing of the job is left; empty until then."""
    if draft.stops_under_way or any(found.holds_room for found in draft.observed.nodes):
        return ""
    if draft.observed.deleting:
        return "the job was deleted and all its nodes have ended"
    return _ttl_has_passed(draft) if draft.expired else ""


def _until(draft: Ledger) -> timedelta | None:
    return None if draft.next_look is None else draft.next_look - draft.now
