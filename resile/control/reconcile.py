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
    ledger = Ledger(job, status, observed=observed, now=now, policy=policy)
    if observed.deleting:
        retire_all(ledger, "Deleted", "the job is being deleted")
    elif status.finished:
        absorb_leftovers(ledger)
    else:
        _carry_on(ledger)
    _expire(ledger)
    sweep(ledger)
    return Decision(
        actions=tuple(ledger.actions),
        status=ledger.close(),
        notes=tuple(ledger.notes),
        removable=_why_removable(ledger),
        requeue_after=_until(ledger),
    )


def _carry_on(ledger: Ledger) -> None:
    """Reconcile a job that has not finished."""
    if ledger.start_time is None and not ledger.spec.suspend:
        ledger.start_time = ledger.now
    settle_sizes(ledger)
    broken = absorb(ledger)
    verdict = judge(ledger, broken=broken)
    if verdict is not None:
        _finish(ledger, verdict)
    elif ledger.spec.suspend:
        _suspend(ledger)
    else:
        _note_resumption(ledger)
        resize(ledger)
        widen_search(ledger)
        start_waiting(ledger)
    note_sizes_reached(ledger)
    describe_job(ledger, verdict)


def _finish(ledger: Ledger, verdict: Verdict) -> None:
    ledger.completion_time = ledger.now
    ended_well = verdict.phase is JobPhase.SUCCEEDED
    ledger.note(EventKind.JOB_SUCCEEDED if ended_well else EventKind.JOB_FAILED, verdict.message)
    keep_running = ledger.spec.clean_pod_policy is CleanPolicy.NONE
    retire_all(
        ledger,
        f"Job{verdict.phase.value}",
        f"the job has {verdict.phase.value.lower()}",
        phases={NodePhase.WAITING} if keep_running else AT_WORK,
    )


def _suspend(ledger: Ledger) -> None:
    ledger.start_time = None
    if ledger.before.phase is not JobPhase.SUSPENDED:
        ledger.note(EventKind.JOB_SUSPENDED, "all nodes are stopped because spec.suspend is true")
    retire_all(ledger, SUSPENDED, "the job is suspended")


def _note_resumption(ledger: Ledger) -> None:
    if ledger.before.phase is JobPhase.SUSPENDED:
        ledger.note(EventKind.JOB_RESUMED, "the job resumes because spec.suspend is false")


def _expire(ledger: Ledger) -> None:
    """Stop everything when the job expires, including nodes that cleanPodPolicy None kept."""
    if ledger.expires_at is not None:
        ledger.wake_at(ledger.expires_at)
    if ledger.expired and any(rank.phase in AT_WORK for rank in ledger.ranks):
        why = _ttl_has_passed(ledger)
        ledger.note(EventKind.JOB_EXPIRED, f"{why}; nodes that still run are stopped")
        retire_all(ledger, "JobExpired", why)


def _ttl_has_passed(ledger: Ledger) -> str:
    return f"ttlSecondsAfterFinished ({ledger.spec.ttl_seconds_after_finished:g} s) has passed"


def _why_removable(ledger: Ledger) -> str:
    """Why the job's record may be removed, once nothing of the job is left; empty until then."""
    if ledger.stops_under_way or any(found.holds_room for found in ledger.observed.nodes):
        return ""
    if ledger.observed.deleting:
        return "the job was deleted and all its nodes have ended"
    return _ttl_has_passed(ledger) if ledger.expired else ""


def _until(ledger: Ledger) -> timedelta | None:
    return None if ledger.next_look is None else ledger.next_look - ledger.now
