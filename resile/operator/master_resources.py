"""Reconcile a job's master and the connection to it, for as long as the job needs one.

A failure (a quota, a name that is taken, an image) does not block the reconciliation of the
nodes: it is remembered, reported in the job's status, and retried. A master's pod that is gone,
ended or on a lost machine is replaced under a new name; one that merely crashed is restarted in
place by its kubelet, over the same store.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resile.control.observed import MasterState, ObservedNode
from resile.control.pod_outcome import MachineState, pending_reason
from resile.job.events import EventKind
from resile.job.exits import NodeExit, describe
from resile.job.naming import master_serial
from resile.job.node import Node
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.errors import ApiError, rejects_object
from resile.kube.resources import KubeObject
from resile.operator.build.master import JobSecret
from resile.operator.child_objects import ChildObjects, ChildUnavailable
from resile.operator.context import OperatorContext
from resile.operator.informers import Key
from resile.operator.master_client import MasterClient
from resile.operator.observe.nodes import NodeStates
from resile.operator.observe.pod_status import pod_facts
from resile.operator.reconcile_state import ReconcileState
from resile.wire.endpoint import DEFAULT_PORT, Endpoint

__all__ = [
    "MasterReconcile",
    "created_before",
    "current_master",
    "is_ready",
    "is_running",
    "master_address",
    "next_serial",
    "pod_problem",
]


CRASH_LOOP = "CrashLoopBackOff"
"""The kubelet's own message contains a delay that changes all the time."""

_LOST = frozenset({MachineState.UNKNOWN, MachineState.GONE})
_ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a pod that is just starting."""


def current_master(
    job: ElasticJob, pods: Sequence[KubeObject], *, machines: NodeStates
) -> KubeObject | None:
    """Return the master that runs or is being started; of several the newest."""
    usable = [pod for pod in pods if _usable(pod, machines)]
    return max(usable, key=lambda pod: _serial(job, pod), default=None)


def next_serial(job: ElasticJob, pods: Iterable[KubeObject]) -> int:
    """Return the number of the next master's pod: above all existing ones, so that a name that a
    lost machine still holds is not waited for."""
    return max((_serial(job, pod) for pod in pods), default=-1) + 1


def master_address(pod: KubeObject | None) -> Endpoint | None:
    """Return the address at which the operator reaches it, once it runs."""
    status = {} if pod is None else pod.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") != "Running":
        return None
    return Endpoint(address, DEFAULT_PORT)


def pod_problem(pod: KubeObject | None) -> str:
    """Return why the master does not work, for people; empty if nothing is wrong, or not yet."""
    if pod is None:
        return ""
    name = pod["metadata"]["name"]
    facts = pod_facts(Node(role="master", rank=0, id=0, name=name), pod)
    scheduled = facts.conditions.get("PodScheduled")
    unplaced = scheduled is not None and scheduled.status == "False"
    if not unplaced and facts.waiting in _ON_ITS_WAY:
        return ""
    why = "it keeps crashing" if facts.waiting == CRASH_LOOP else pending_reason(facts)[1]
    return f"{name}: {why}{_last_words(pod)}"


def is_ready(pod: KubeObject) -> bool:
    """Return whether a master's pod is Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _last_words(pod: Mapping[str, Any]) -> str:
    """Return how a master that keeps crashing ended last, and the end of its log."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("lastState") or {}).get("terminated") or {}
        if ended:
            said = " ".join(str(ended.get("message") or "").split())
            how = f"it {describe(NodeExit(code=ended.get('exitCode')))}"
            return f"; {how}: {said[-_SAID_AT_MOST:]}" if said else f"; {how}"
    return ""


_SAID_AT_MOST = 300
"""Characters, from the end: it says more than the beginning."""


def is_running(node: KubeObject, machines: NodeStates) -> bool:
    """Return whether a node's pod is running, even if it is being deleted: its agent may hold what
    a master lost."""
    running = (node.get("status") or {}).get("phase") == "Running"
    return running and machines.of(node) not in _LOST


def created_before(node: KubeObject, master: KubeObject) -> bool:
    """Return whether a node's pod was created before a master's, by at least a second."""
    first, then = (pod["metadata"]["creationTimestamp"] for pod in (node, master))
    return bool(first < then)


def _usable(pod: KubeObject, machines: NodeStates) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return machines.of(pod) not in _LOST


def _serial(job: ElasticJob, pod: KubeObject) -> int:
    return master_serial(job, pod["metadata"]["name"])


NO_POD_GROUPS = (
    "spec.gangScheduling is PodGroup, but this cluster does not serve PodGroups "
    "(scheduling.x-k8s.io): nodes are scheduled individually"
)

RECHECK_AFTER = 60.0
"""Seconds between two checks whether a job's token and services still exist."""

NAME_TAKEN_FOR = 1.0
"""Seconds until a name that is taken is retried: the objects of an earlier job of the same name are
removed in about that time."""


class MasterReconcile:
    """The master of one job, in one reconcile."""

    def __init__(
        self, means: OperatorContext, raw: KubeObject, *, job: ElasticJob, memory: ReconcileState
    ) -> None:
        self._context = means
        self._raw = raw
        self._job = job
        self._memory = memory
        self._uid: str = raw["metadata"]["uid"]
        self._key: Key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
        self._masters = means.world.masters_of(self._key, self._uid)
        self._children = ChildObjects(means.client, job, uid=self._uid, image=means.image)

    def master_state(self) -> MasterState:
        """Return whether the job has a master that is ready, and the problem if it has none."""
        master = current_master(self._job, self._masters, machines=self._context.world.machines)
        problem = self._memory.master_problem or pod_problem(master)
        return MasterState(ready=master is not None and is_ready(master), problem=problem)

    def holders(self) -> int | None:
        """Count the running nodes that are older than the master; None while there is none."""
        machines = self._context.world.machines
        master = current_master(self._job, self._masters, machines=machines)
        if master is None:
            return None
        nodes = self._context.world.nodes_of(self._key, self._uid)
        return sum(is_running(node, machines) and created_before(node, master) for node in nodes)

    @property
    def again(self) -> float | None:
        """Seconds until what failed is retried; None if nothing failed."""
        if not self._memory.master_problem:
            return None
        return max(0.0, self._memory.master_retry_at - time.monotonic())

    async def ensure(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> None:
        """Ensure what the nodes need besides themselves. The next reconcile reports a failure."""
        memory, now = self._memory, time.monotonic()
        if memory.master_problem and now < memory.master_retry_at:
            return
        generation = self._raw["metadata"].get("generation")
        if memory.master_refused and memory.master_refused_generation == generation:
            return
        before, memory.master_problem, memory.master_refused = memory.master_problem, "", ""
        try:
            await self._have_master(status, nodes)
        except (ApiError, ChildUnavailable) as error:
            passing = isinstance(error, ChildUnavailable)
            memory.master_problem = str(error)
            if rejects_object(error):
                memory.master_refused, memory.master_refused_generation = str(error), generation
            memory.master_retry_at = now + (
                NAME_TAKEN_FOR if passing else self._context.settings.retry_seconds
            )
        if bool(before) is not bool(memory.master_problem):
            self._context.requeue(self._key)

    async def _have_master(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> None:
        """Ensure a master while the job needs one; delete it afterwards."""
        wanted = not status.finished and not self._job.spec.suspend
        if not wanted and not any(found.live for found in nodes):
            await self._children.delete_masters(self._masters)
            await self._memory.close()
            return
        master = current_master(self._job, self._masters, machines=self._context.world.machines)
        if wanted:
            await self._open_line(anew=master is None)
            if master is None:
                await self._start_master(status)
        if master is not None:
            # One that was considered lost may come back with its machine: keep only one.
            await self._children.delete_masters(pod for pod in self._masters if pod is not master)
        if self._memory.line is not None:
            self._memory.line.most_nodes = self._job.spec.most_nodes
            self._memory.line.set_endpoint(master_address(master))

    async def _open_line(self, *, anew: bool) -> None:
        """Ensure services, token and connection; ``anew``: check that they exist in any case,
        because a pod without its secret could not start."""
        memory, now = self._memory, time.monotonic()
        generation = self._raw["metadata"].get("generation")
        fresh = memory.ensured_generation == generation and now < memory.ensured_at + RECHECK_AFTER
        if fresh and memory.line is not None and not anew:
            return
        known = None if memory.line is None else memory.line.secret
        secret = await self._secret(known)
        await self._children.serve()
        if not await self._children.group() and memory.line is None:
            self._context.reporter.report_job(self._raw, EventKind.NO_POD_GROUPS, NO_POD_GROUPS)
        if memory.line is not None and memory.line.secret != secret:
            await memory.close()
        if memory.line is None:
            memory.line = self._line(secret)
        memory.ensured_generation, memory.ensured_at = generation, now

    async def _secret(self, known: JobSecret | None) -> JobSecret:
        """Return the job's secret. Masters that were started with an older one are deleted."""
        nodes = self._context.world.nodes_of(self._key, self._uid)
        in_use = any(is_running(node, self._context.world.machines) for node in nodes)
        held = await self._children.secret(known, in_use=in_use)
        if held.fresh:
            await self._children.delete_masters(self._masters)
        return held.secret

    def _line(self, secret: JobSecret) -> MasterClient:
        means, key = self._context, self._key
        return MasterClient(
            means.session,
            secret,
            refresh=self._context.settings.refresh_seconds,
            news=lambda events: means.reporter.report_training(key, events),
            changed=lambda: means.requeue(key),
        )

    async def _start_master(self, status: JobStatus) -> None:
        nodes = self._context.world.nodes_of(self._key, self._uid)
        trained = any(is_running(pod, self._context.world.machines) for pod in nodes)
        pod = await self._children.start_master(
            next_serial(self._job, self._masters),
            tls=self._memory.line is not None and self._memory.line.secret.has_tls,
            after_round=(status.round or 0) if trained else 0,
        )
        if pod is not None:
            self._context.world.pods.put(pod)
            what = "starting a new master" if self._masters else "starting the master"
            text = f"{what}: {pod['metadata']['name']}"
            self._context.reporter.report_job(self._raw, EventKind.MASTER_STARTED, text)
