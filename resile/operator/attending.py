"""Sees to a job's master and the line to it, for as long as there is something to agree on.

What cannot be had (a quota, a name that somebody else has, an image) does not keep the nodes from
being looked after: it is remembered, said, and tried again.
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
    answers,
    current_master,
    master_address,
    master_trouble,
    next_serial,
    older,
    runs,
)
from resile.operator.means import Means
from resile.operator.memory import JobMemory
from resile.operator.world import Key
from resile.platform.kubernetes.errors import ApiError, refuses_the_object
from resile.platform.kubernetes.job_secret import JobSecret
from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["Attending"]

NO_POD_GROUPS = (
    "spec.gangScheduling is PodGroup, and this cluster knows none (scheduling.x-k8s.io): nodes are "
    "placed each for itself"
)

ATTENDED_FOR = 60.0
"""Seconds after which it is looked again whether somebody deleted a job's token or services."""

NAME_TAKEN_FOR = 1.0
"""Seconds until a name that somebody else has is tried again: what an earlier job of the same name
has left is removed in about that time."""


class Attending:
    """One look's."""

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
        """Whether the job has a master that answers, and what keeps it from having one."""
        master = current_master(self._job, self._masters, machines=self._means.world.machines)
        problem = self._memory.unattended or master_trouble(master)
        return MasterState(ready=master is not None and answers(master), problem=problem)

    def holders(self) -> int | None:
        """How many nodes run that were there before the master; None while there is none."""
        machines = self._means.world.machines
        master = current_master(self._job, self._masters, machines=machines)
        if master is None:
            return None
        nodes = self._means.world.nodes_of(self._key, self._uid)
        return sum(runs(node, machines) and older(node, master) for node in nodes)

    @property
    def again(self) -> float | None:
        """In how many seconds to try again what could not be had."""
        if not self._memory.unattended:
            return None
        return max(0.0, self._memory.attend_at - time.monotonic())

    async def see_to(self, status: JobStatus, nodes: tuple[ObservedNode, ...]) -> None:
        """Have what the nodes need beside them. What cannot be had is said at the next look."""
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
        """Have a master as long as there is something to agree on."""
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
            # One that was taken for lost may come back with its machine: there is to be one only.
            await self._attendants.end_masters(pod for pod in self._masters if pod is not master)
        if self._memory.line is not None:
            self._memory.line.most_nodes = self._job.spec.most_nodes
            self._memory.line.turn_to(master_address(master))

    async def _open_line(self, *, anew: bool) -> None:
        """Have services, a token and a line; ``anew``: look whether they are there in any case,
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
        """The job's secret. A master that was given another is of no use."""
        nodes = self._means.world.nodes_of(self._key, self._uid)
        in_use = any(runs(node, self._means.world.machines) for node in nodes)
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
        trained = any(runs(pod, self._means.world.machines) for pod in nodes)
        pod = await self._attendants.start_master(
            next_serial(self._job, self._masters),
            tls=self._memory.line is not None and self._memory.line.secret.has_tls,
            after_round=(status.round or 0) if trained else 0,
        )
        if pod is not None:
            self._means.world.pods.put(pod)
            what = "another master is started" if self._masters else "the master is started"
            text = f"{what}: {pod['metadata']['name']}"
            self._means.teller.tell_job(self._raw, EventKind.MASTER_STARTED, text)
