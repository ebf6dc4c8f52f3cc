"""Reconcile a job's master and the connection to it, for as long as the job needs one.

A failure (a quota, a name that is taken, an image) does not block the reconciliation of the nodes:
it is remembered, reported in the job's status, and retried.
"""

from __future__ import annotations

import time

from resile.control.observed import MasterState, ObservedNode
from resile.job.events import EventKind
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.operator.attendants import Attendants, Unattended
from resile.operator.masterline import MasterLine
from resile.operator.masterpods import (
    created_before,
    current_master,
    is_ready,
    is_running,
    master_address,
    next_serial,
    pod_problem,
)
from resile.operator.means import Means
from resile.operator.memory import JobMemory
from resile.operator.world import Key
from resile.platform.kubernetes.errors import ApiError, refuses_the_object
from resile.platform.kubernetes.job_secret import JobSecret
from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["Attending"]

NO_POD_GROUPS = (
    "spec.gangScheduling is PodGroup, but this cluster does not serve PodGroups "
    "(scheduling.x-k8s.io): nodes are scheduled individually"
)

ATTENDED_FOR = 60.0
"""Seconds between two checks whether a job's token and services still exist."""

NAME_TAKEN_FOR = 1.0
"""Seconds until a name that is taken is retried: the objects of an earlier job of the same name are
removed in about that time."""


class Attending:
    """The master of one job, in one reconcile."""

    def __init__(
        self, means: Means, raw: KubeObject, *, job: ElasticJob, memory: JobMemory
    ) -> None:
        self._means = means
        self._raw = raw
        self._job = job
        self._memory = memory
        self._uid: str = raw["metadata"]["uid"]
        self._key: Key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
        self._masters = means.world.masters_of(self._key, self._uid)
        self._attendants = Attendants(means.client, job, uid=self._uid, image=means.image)

    def master_state(self) -> MasterState:
        """Return whether the job has a master that is ready, and the problem if it has none."""
        master = current_master(self._job, self._masters, machines=self._means.world.machines)
        problem = self._memory.unattended or pod_problem(master)
        return MasterState(ready=master is not None and is_ready(master), problem=problem)

    def holders(self) -> int | None:
        """Count the running nodes that are older than the master; None while there is none."""
        machines = self._means.world.machines
        master = current_master(self._job, self._masters, machines=machines)
        if master is None:
            return None
        nodes = self._means.world.nodes_of(self._key, self._uid)
        return sum(is_running(node, machines) and created_before(node, master) for node in nodes)

    @property
    def again(self) -> float | None:
        """Seconds until what failed is retried; None if nothing failed."""
        if not self._memory.unattended:
            return None
        return max(0.0, self._memory.attend_at - time.monotonic())

    async def see_to(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> None:
        """Ensure what the nodes need besides themselves. The next reconcile reports a failure."""
        memory, now = self._memory, time.monotonic()
        if memory.unattended and now < memory.attend_at:
            return
        generation = self._raw["metadata"].get("generation")
        if memory.master_refused and memory.master_refused_generation == generation:
            return
        before, memory.unattended, memory.master_refused = memory.unattended, "", ""
        try:
            await self._have_master(status, nodes)
        except (ApiError, Unattended) as error:
            passing = isinstance(error, Unattended)
            memory.unattended = str(error)
            if refuses_the_object(error):
                memory.master_refused, memory.master_refused_generation = str(error), generation
            memory.attend_at = now + (
                NAME_TAKEN_FOR if passing else self._means.settings.retry_seconds
            )
        if bool(before) is not bool(memory.unattended):
            self._means.look_again(self._key)

    async def _have_master(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> None:
        """Ensure a master while the job needs one; delete it afterwards."""
        wanted = not status.finished and not self._job.spec.suspend
        if not wanted and not any(found.live for found in nodes):
            await self._attendants.end_masters(self._masters)
            await self._memory.close()
            return
        master = current_master(self._job, self._masters, machines=self._means.world.machines)
        if wanted:
            await self._open_line(anew=master is None)
            if master is None:
                await self._start_master(status)
        if master is not None:
            # One that was considered lost may come back with its machine: keep only one.
            await self._attendants.end_masters(pod for pod in self._masters if pod is not master)
        if self._memory.line is not None:
            self._memory.line.most_nodes = self._job.spec.most_nodes
            self._memory.line.turn_to(master_address(master))

    async def _open_line(self, *, anew: bool) -> None:
        """Ensure services, token and connection; ``anew``: check that they exist in any case,
        because a pod without its secret could not start."""
        memory, now = self._memory, time.monotonic()
        generation = self._raw["metadata"].get("generation")
        fresh = memory.attended == generation and now < memory.attended_at + ATTENDED_FOR
        if fresh and memory.line is not None and not anew:
            return
        known = None if memory.line is None else memory.line.secret
        secret = await self._secret(known)
        await self._attendants.serve()
        if not await self._attendants.group() and memory.line is None:
            self._means.teller.tell_job(self._raw, EventKind.NO_POD_GROUPS, NO_POD_GROUPS)
        if memory.line is not None and memory.line.secret != secret:
            await memory.close()
        if memory.line is None:
            memory.line = self._line(secret)
        memory.attended, memory.attended_at = generation, now

    async def _secret(self, known: JobSecret | None) -> JobSecret:
        """Return the job's secret. Masters that were started with an older one are deleted."""
        nodes = self._means.world.nodes_of(self._key, self._uid)
        in_use = any(is_running(node, self._means.world.machines) for node in nodes)
        held = await self._attendants.secret(known, in_use=in_use)
        if held.fresh:
            await self._attendants.end_masters(self._masters)
        return held.secret

    def _line(self, secret: JobSecret) -> MasterLine:
        means, key = self._means, self._key
        return MasterLine(
            means.session,
            secret,
            refresh=self._means.settings.refresh_seconds,
            news=lambda events: means.teller.tell_training(key, events),
            changed=lambda: means.look_again(key),
        )

    async def _start_master(self, status: JobStatus) -> None:
        nodes = self._means.world.nodes_of(self._key, self._uid)
        trained = any(is_running(pod, self._means.world.machines) for pod in nodes)
        pod = await self._attendants.start_master(
            next_serial(self._job, self._masters),
            tls=self._memory.line is not None and self._memory.line.secret.has_tls,
            after_round=(status.round or 0) if trained else 0,
        )
        if pod is not None:
            self._means.world.pods.put(pod)
            what = "starting a new master" if self._masters else "starting the master"
            text = f"{what}: {pod['metadata']['name']}"
            self._means.teller.tell_job(self._raw, EventKind.MASTER_STARTED, text)
