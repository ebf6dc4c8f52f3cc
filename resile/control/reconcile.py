"""The controller: from spec, status, observations and the time, to actions and a new status.

A pure function, called whenever something may have changed, as often as needed: on an unchanged
report it requests nothing new. All memory is in the status, so the caller stores it before it
carries out the actions, and may crash at any point.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from resile.control.actions import Decision
from resile.control.apply_observations import apply_observations, apply_observations_after_end
from resile.control.completion import JobResult, decide_completion
from resile.control.conditions import describe_job
from resile.control.observed import Observed
from resile.control.policy import DEFAULT_POLICY, Policy
from resile.control.sizing import (
    decide_sizes,
    note_sizes_reached,
    resize,
    retire_all,
    start_waiting,
    stop_avoiding_hosts,
    stop_superfluous,
)
from resile.control.status_draft import ACTIVE_PHASES, SUSPENDED, StatusDraft
from resile.job.events import EventKind
from resile.job.node import NodePhase
from resile.job.spec.job import CleanPolicy, ElasticJob
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
    draft = StatusDraft(job, status, observed=observed, now=now, policy=policy)
    if observed.deleting:
        retire_all(draft, "Deleted", "the job is being deleted")
    elif status.finished:
        apply_observations_after_end(draft)
    else:
        _carry_on(draft)
    _expire(draft)
    stop_superfluous(draft)
    return Decision(
        actions=tuple(draft.actions),
        status=draft.close(),
        notes=tuple(draft.notes),
        removable=_why_removable(draft),
        requeue_after=_until(draft),
    )


def _carry_on(draft: StatusDraft) -> None:
    """Reconcile a job that has not finished."""
    if draft.start_time is None and not draft.spec.suspend:
        draft.start_time = draft.now
    decide_sizes(draft)
    broken = apply_observations(draft)
    verdict = decide_completion(draft, broken=broken)
    if verdict is not None:
        _finish(draft, verdict)
    elif draft.spec.suspend:
        _suspend(draft)
    else:
        _note_resumption(draft)
        resize(draft)
        stop_avoiding_hosts(draft)
        start_waiting(draft)
    note_sizes_reached(draft)
    describe_job(draft, verdict)


def _finish(draft: StatusDraft, verdict: JobResult) -> None:
    draft.completion_time = draft.now
    ended_well = verdict.phase is JobPhase.SUCCEEDED
    draft.note(EventKind.JOB_SUCCEEDED if ended_well else EventKind.JOB_FAILED, verdict.message)
    keep_running = draft.spec.clean_pod_policy is CleanPolicy.NONE
    retire_all(
        draft,
        f"Job{verdict.phase.value}",
        f"the job has {verdict.phase.value.lower()}",
        phases={NodePhase.WAITING} if keep_running else ACTIVE_PHASES,
    )


def _suspend(draft: StatusDraft) -> None:
    draft.start_time = None
    if draft.before.phase is not JobPhase.SUSPENDED:
        draft.note(EventKind.JOB_SUSPENDED, "all nodes are stopped because spec.suspend is true")
    retire_all(draft, SUSPENDED, "the job is suspended")


def _note_resumption(draft: StatusDraft) -> None:
    if draft.before.phase is JobPhase.SUSPENDED:
        draft.note(EventKind.JOB_RESUMED, "the job resumes because spec.suspend is false")


def _expire(draft: StatusDraft) -> None:
    """Stop everything when the job expires, including nodes that cleanPodPolicy None kept."""
    if draft.expires_at is not None:
        draft.wake_at(draft.expires_at)
    if draft.expired and any(rank.phase in ACTIVE_PHASES for rank in draft.ranks):
        why = _ttl_has_passed(draft)
        draft.note(EventKind.JOB_EXPIRED, f"{why}; nodes that still run are stopped")
        retire_all(draft, "JobExpired", why)


def _ttl_has_passed(draft: StatusDraft) -> str:
    return f"ttlSecondsAfterFinished ({draft.spec.ttl_seconds_after_finished:g} s) has passed"


def _why_removable(draft: StatusDraft) -> str:
    """Return why the job's record may be removed, once nothing of the job is left; else empty."""
    if draft.stops_under_way or any(found.holds_room for found in draft.observed.nodes):
        return ""
    if draft.observed.deleting:
        return "the job was deleted and all its nodes have ended"
    return _ttl_has_passed(draft) if draft.expired else ""


def _until(draft: StatusDraft) -> timedelta | None:
    return None if draft.next_look is None else draft.next_look - draft.now
