"""A reconcile of one job: observe, decide, write the status, act, emit events.

Level-triggered: it observes the whole state of the job and never what changed. The decisions are
made by ``control/``, the same as on one machine. The status is written before it is acted on,
and only over the version it was computed from, so that an operator that is killed, or still
believes that it is the leader, never creates a node twice or forgets one.

Whether a pod was preempted, a condition of the pod says from Kubernetes 1.26 on. Before that
only an Event does, which is written a moment after the pod is deleted: it is looked up twice, so
that people read "was preempted by" and not "was deleted".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from msgspec.structs import replace

from resile.control.actions import Decision, StartNode
from resile.control.node_events import events_between
from resile.control.observed import INVALID_SPEC, Observed, ObservedNode
from resile.control.pod_outcome import DISRUPTION_TARGET
from resile.control.reconcile import reconcile
from resile.control.start_requests import start_requests_for, unseen_start_requests
from resile.job.addresses import Addresses, can_be_published
from resile.job.compact_status import compact
from resile.job.events import EventKind
from resile.job.node import LIVE
from resile.job.spec.job import ElasticJob
from resile.job.status import Condition, ConditionStatus, ConditionType, JobStatus, RequestVerb
from resile.kube.client import KubeClient
from resile.kube.errors import NotFound
from resile.kube.resources import ELASTIC_JOBS, EVENTS, KubeObject
from resile.operator.addresses import AddressReconcile
from resile.operator.build.labels import node_of
from resile.operator.build.master import node_variables
from resile.operator.context import OperatorContext
from resile.operator.informers import Key
from resile.operator.master_resources import MasterReconcile
from resile.operator.observe.nodes import observe_nodes
from resile.operator.pod_executor import PodExecutor
from resile.operator.reconcile_state import ReconcileState
from resile.operator.training_status import with_progress, with_training
from resile.platform.master_reports import directive_for, group_reports

__all__ = [
    "JobReconcile",
    "invalid_spec_status",
    "may_be_preempted",
    "preemption_of",
]


def invalid_spec_status(
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
    updated = replace(status, conditions=(refused, *others), observed_generation=generation)
    return compact(updated)


WAITS = (0.0, 0.2)
"""Seconds before each lookup. The pod's replacement waits as long."""


def may_be_preempted(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod is being deleted and has no condition that says why."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    announced = any(one["type"] == DISRUPTION_TARGET for one in conditions)
    return "deletionTimestamp" in pod["metadata"] and not announced


async def preemption_of(client: KubeClient, pod: Mapping[str, Any]) -> str:
    """Return the scheduler's message about a pod's preemption; empty if it was not preempted."""
    about = pod["metadata"]
    for wait in WAITS:
        await asyncio.sleep(wait)
        found = await client.list(
            EVENTS,
            namespace=about["namespace"],
            fields=f"involvedObject.uid={about['uid']},reason=Preempted",
        )
        for event in found.items:
            return str(event.get("message") or "for a pod of higher priority")
    return ""


log = logging.getLogger("resile.operator")

PREEMPTIONS_AT_ONCE = 8
"""Pods for which one reconcile looks up whether they were preempted. If more go together, the
others are reported as deleted; neither costs a restart budget."""


class JobReconcile:
    """A reconcile of a job whose manifest is valid."""

    def __init__(
        self,
        means: OperatorContext,
        raw: KubeObject,
        *,
        job: ElasticJob,
        before: JobStatus,
        memory: ReconcileState,
    ) -> None:
        self._context = means
        self._settings = means.settings
        self._raw = raw
        self._job = job
        self._before = before
        self._memory = memory
        self._uid: str = raw["metadata"]["uid"]
        self._generation: int | None = raw["metadata"].get("generation")
        self._key: Key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
        self._master = MasterReconcile(means, raw, job=job, memory=memory)
        self._addresses = AddressReconcile(means, raw, job=job, memory=memory)

    async def run(self) -> float | None:
        """Reconcile the job. Returns the seconds until the next reconcile if nothing happens."""
        await self._learn_of_preemptions()
        gone = self._context.world.departed.of(self._key, self._uid)
        nodes = self._observe(gone)
        if not self._has_heard_master(nodes):
            return None  # requeued when it has answered, or after a timeout
        decision = self._decide(nodes, gone)
        status = self._completed(decision)
        orders = self._orders(status, nodes)
        if status != self._before or orders:
            # Orders from an earlier status are valid only if nothing was written since.
            self._raw = await self._context.write(self._raw, status)
        if status != self._before:
            self._tell(decision, status)
        if decision.removable and status.finished:
            await self._remove(decision.removable)
            return None
        # Nodes cannot start without these.
        await self._master.ensure(status, nodes)
        addresses = self._addresses.addresses(status)
        await self._addresses.ensure(status, addresses)
        await self._act(decision, orders, status, addresses=addresses)
        self._direct(status, addresses)
        return self._again(decision)

    # --- observe ----------------------------------------------------------------------------

    async def _learn_of_preemptions(self) -> None:
        """Look up once, for each pod deleted by others, whether it was preempted."""
        memory = self._memory
        stopping = {
            request.node.id
            for request in self._before.pending_requests
            if request.verb is RequestVerb.STOP
        }
        pods = {
            pod["metadata"]["uid"]: pod
            for pod in self._context.world.nodes_of(self._key, self._uid)
            if may_be_preempted(pod) and (node := node_of(pod)) and node.id not in stopping
        }
        known = {uid: memory.preempted[uid] for uid in pods if uid in memory.preempted}
        unknown = [uid for uid in pods if uid not in known]
        new, others = unknown[:PREEMPTIONS_AT_ONCE], unknown[PREEMPTIONS_AT_ONCE:]
        found = await asyncio.gather(
            *(preemption_of(self._context.client, pods[uid]) for uid in new)
        )
        learnt = dict(zip(new, found, strict=True))
        memory.preempted = {**known, **learnt, **dict.fromkeys(others, "")}

    def _observe(self, gone: frozenset[int]) -> tuple[ObservedNode, ...]:
        pods = self._context.world.nodes_of(self._key, self._uid)
        if self._memory.refused:
            there = {node.id for pod in pods if (node := node_of(pod)) is not None}
            self._memory.drop_created(there | gone, self._before)
        return observe_nodes(
            pods,
            status=self._before,
            machines=self._context.world.machines,
            refused=self._memory.refused,
            reachable=self._memory.reachable,
            preempted=self._memory.preempted,
        )

    def _has_heard_master(self, nodes: tuple[ObservedNode, ...]) -> bool:
        """If a node has ended, ask the master at once why: it was told first. The answer is not
        awaited here, because a slow master must not delay other jobs."""
        memory = self._memory
        live = {rank.id for rank in self._before.nodes if rank.phase in LIVE}
        ended = {one.node.id for one in nodes if not one.live and one.node.id in live}
        if not memory.has_asked_about(ended, self._settings.master_timeout, self._requeue):
            return False
        if memory.line is not None and memory.line.latest is not None:
            reports = group_reports(memory.line.latest, self._job.spec, at=memory.line.latest_at)
            memory.reports = {**reports, **memory.reports}
        return True

    def _requeue(self) -> None:
        self._context.requeue(self._key)

    # --- decide -----------------------------------------------------------------------------

    def _decide(self, nodes: tuple[ObservedNode, ...], gone: frozenset[int]) -> Decision:
        observed = Observed(
            nodes=nodes,
            gone=gone,
            reports=self._memory.reports,
            master=self._master.master_state(),
        )
        return reconcile(self._job, self._before, observed, _now(), policy=self._settings.policy)

    def _completed(self, decision: Decision) -> JobStatus:
        """The status with what the master saw; how far the training is only now and then."""
        trainings = self._memory.trainings
        status = with_training(
            decision.status,
            self._job,
            seen=trainings,
            generation=self._generation,
        )
        status, self._memory.headway = with_progress(
            status,
            self._before,
            seen=trainings,
            last=self._memory.headway,
            now=time.monotonic(),
            every=self._settings.refresh_seconds,
        )
        if why := self._memory.why_invalid(self._generation):
            status = invalid_spec_status(
                status, why, generation=self._generation, now=_now(), before=self._before
            )
        return compact(status)

    # --- act --------------------------------------------------------------------------------

    def _orders(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> tuple[StartNode, ...]:
        """Nodes to create now: those without any effect so far, and those rejected earlier."""
        again = self._memory.offers(status, time.monotonic())
        policy = self._settings.policy
        return (
            *unseen_start_requests(self._job, status, nodes, policy=policy),
            *start_requests_for(self._job, status, again, policy=policy),
        )

    async def _act(
        self,
        decision: Decision,
        orders: tuple[StartNode, ...],
        status: JobStatus,
        *,
        addresses: Addresses | None,
    ) -> None:
        memory = self._memory
        platform = PodExecutor(
            self._context.client,
            self._job,
            uid=self._uid,
            pods=self._context.world.nodes_of(self._key, self._uid),
            environments=node_variables(self._job),
            addresses=addresses,
        )
        refused = await platform.apply(
            [
                *(act for act in decision.actions if not isinstance(act, StartNode)),
                *orders,
            ]
        )
        for pod in platform.created:
            self._context.world.pods.put(pod)
            if (node := node_of(pod)) is not None:
                memory.refused.pop(node.id, None)
        await platform.lift_gates(self._context.world.nodes_of(self._key, self._uid), status)
        if refused:
            memory.refused.update(refused)
            memory.refused_generation = self._generation
            memory.offer_again_at = time.monotonic() + self._settings.retry_seconds
            self._context.requeue(self._key)

    async def _remove(self, why: str) -> None:
        log.info("deleting %s/%s: %s", *self._key, why)
        namespace, name = self._key
        try:
            await self._context.client.delete(ELASTIC_JOBS, name, namespace, uid=self._uid)
        except NotFound:
            return

    # --- emit events, inform the master -----------------------------------------------------

    def _tell(self, decision: Decision, status: JobStatus) -> None:
        notes = [*decision.notes, *events_between(self._before, status, now=_now())]
        self._context.reporter.report_decisions(self._raw, notes)
        refused = status.condition(ConditionType.CREATED)
        if refused is not None and refused.reason == INVALID_SPEC:
            known = self._before.condition(ConditionType.CREATED)
            if known is None or known.message != refused.message:
                self._context.reporter.report_job(
                    self._raw, EventKind.INVALID_SPEC, refused.message
                )

    def _direct(self, status: JobStatus, addresses: Addresses | None) -> None:
        """Tell the master which nodes to expect."""
        line = self._memory.line
        if line is None:
            return
        line.direct(
            directive_for(
                self._job,
                status,
                holders=self._master.holders(),
                addresses=addresses if addresses and can_be_published(addresses) else None,
            )
        )

    def _again(self, decision: Decision) -> float | None:
        delays = []
        if decision.requeue_after is not None:
            delays.append(max(0.0, decision.requeue_after.total_seconds()))
        if self._memory.refused:
            delays.append(self._settings.retry_seconds)
        for again in (self._master.again, self._addresses.again):
            if again is not None:
                delays.append(again)
        return min(delays, default=None)


def _now() -> datetime:
    return datetime.now(timezone.utc)
