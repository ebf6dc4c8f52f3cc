"""Execute a controller's actions on a cluster: create and delete pods, nothing else.

Every action is idempotent: a pod that exists already counts as created, one that is gone as
deleted. What the API server rejects is returned as a :class:`RejectedPod`; the caller retries it.
Nothing is remembered here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from resile.control.actions import Action, DeleteNode, StartNode, StopNode
from resile.control.observed import FORBIDDEN, INVALID_SPEC
from resile.job.addresses import Addresses
from resile.job.naming import serial_of
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.client import KubeClient
from resile.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    rejects_object,
)
from resile.kube.resources import PODS, KubeObject
from resile.operator.build.gang import gates_to_lift
from resile.operator.build.labels import node_of
from resile.operator.build.pods import build_node_pod
from resile.operator.observe.nodes import RejectedPod, Retryability, owned_by, owned_by_job
from resile.operator.observe.pod_status import parse_time

__all__ = ["PodExecutor"]

log = logging.getLogger("resile.operator")

NAME_TAKEN = "NameTaken"

AT_ONCE = 8
"""Concurrent requests of one job. As many jobs are reconciled concurrently, and the client has 100
connections for all of them."""


_ENDED = ("Succeeded", "Failed")


class Removed(RejectedPod):
    """The pod that had the node's name was removed just now: the new one can be created."""


class PodExecutor:
    """Creates and deletes the pods of one job."""

    def __init__(
        self,
        client: KubeClient,
        job: ElasticJob,
        *,
        uid: str,
        pods: Iterable[KubeObject],
        environments: Mapping[str, Sequence[Mapping[str, Any]]],
        addresses: Addresses | None = None,
    ) -> None:
        """``pods``: the job's existing pods. ``environments``: the variables of each role besides
        the manifest's; ``addresses``: the addresses of all nodes, if they are given them."""
        self._client = client
        self._job = job
        self._uid = uid
        # By node, because a replacement may have the name of a pod that is to be deleted.
        self._uids = {node_of(pod): pod["metadata"]["uid"] for pod in pods}
        self._environments = environments
        self._addresses = addresses
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.created: list[KubeObject] = []
        """The pods that were created."""

    async def apply(self, actions: Iterable[Action]) -> dict[int, RejectedPod]:
        """Execute all actions. Returns the rejected pods by node id."""
        outcomes = await asyncio.gather(*(self._carry_out(action) for action in actions))
        return {refusal.node.id: refusal for refusal in outcomes if refusal is not None}

    async def lift_gates(self, pods: Iterable[KubeObject], status: JobStatus) -> None:
        """Remove the scheduling gates once all pods that the job needs exist."""
        for name, left in gates_to_lift(self._job, status, pods).items():
            body = {"spec": {"schedulingGates": left}}
            with contextlib.suppress(NotFound):
                await self._client.patch(PODS, name, body, namespace=self._job.metadata.namespace)

    async def _carry_out(self, action: Action) -> RejectedPod | None:
        async with self._turn:
            if isinstance(action, StartNode):
                return await self._start(action)
            grace = 0 if isinstance(action, DeleteNode) else math.ceil(action.grace_seconds)
            await self._delete(action, grace)
            return None

    async def _start(self, order: StartNode) -> RejectedPod | None:
        pod = build_node_pod(
            self._job,
            order,
            uid=self._uid,
            environment=self._environments[order.node.role],
            avoid=order.avoid,
            addresses=self._addresses,
        )
        refusal = await self._create(order, pod)
        if isinstance(refusal, Removed):
            refusal = await self._create(order, pod)
        return refusal

    async def _create(self, order: StartNode, pod: KubeObject) -> RejectedPod | None:
        try:
            self.created.append(await self._client.create(PODS, pod))
        except AlreadyExists:
            return await self._taken(order)
        except Forbidden as error:
            return RejectedPod(order.node, FORBIDDEN, str(error))
        except KubeError as error:
            if rejects_object(error):
                return RejectedPod(order.node, INVALID_SPEC, str(error), Retryability.NEVER)
            return RejectedPod(order.node, "NotTaken", str(error))
        return None

    async def _taken(self, order: StartNode) -> RejectedPod | None:
        """Handle a pod that has the node's name. It may be the node's own; the pod of an earlier
        node of its rank, or of an earlier job of this name, has to be deleted first; for somebody
        else's pod the next node takes another name, if names are numbered."""
        name = order.node.name
        try:
            pod = await self._client.get(PODS, name, self._job.metadata.namespace)
        except NotFound:
            return RejectedPod(order.node, NAME_TAKEN, f"a pod {name} was deleted just now")
        except KubeError as error:
            return RejectedPod(order.node, "NotTaken", str(error))
        if owned_by(self._uid, pod):
            found = node_of(pod)
            if found is not None and found.id < order.node.id:
                return await self._replace(order, pod)
            self.created.append(pod)
            return None
        if "deletionTimestamp" in pod["metadata"] or owned_by_job(self._job.metadata.name, pod):
            why = f"the name {name} is taken by another pod, which has to be deleted first"
            return RejectedPod(order.node, NAME_TAKEN, why)
        why = f"the name {name} is taken by a pod that does not belong to this job"
        numbered = serial_of(self._job, order.node) is not None
        outlook = Retryability.OTHERWISE if numbered else Retryability.LATER
        return RejectedPod(order.node, NAME_TAKEN, why, outlook)

    async def _replace(self, order: StartNode, pod: KubeObject) -> RejectedPod:
        """Remove the pod whose name and rank the node takes over. The controller has seen its node
        ended or lost: one that has ended is removed at once, any other after its grace period."""
        name, metadata = order.node.name, pod["metadata"]
        over = (pod.get("status") or {}).get("phase") in _ENDED
        due = parse_time(metadata.get("deletionTimestamp"))
        why = f"the pod {name} of its predecessor has to be deleted first"
        if over or due is None or due <= datetime.now(timezone.utc):
            grace = 0 if over or due is not None else math.ceil(order.grace_seconds)
            namespace, uid = self._job.metadata.namespace, metadata["uid"]
            try:
                with contextlib.suppress(Conflict, NotFound):  # the name may be free already
                    await self._client.delete(PODS, name, namespace, grace_seconds=grace, uid=uid)
            except KubeError as error:
                return RejectedPod(order.node, "NotTaken", str(error))
            if grace == 0:
                return Removed(order.node, NAME_TAKEN, why)
        return RejectedPod(order.node, NAME_TAKEN, why)

    async def _delete(self, action: StopNode | DeleteNode, grace: int) -> None:
        name, namespace = action.node.name, self._job.metadata.namespace
        uid = self._uids.get(action.node)
        if uid is None:
            return  # never created, or gone; a pod of that name belongs to somebody else
        try:
            await self._client.delete(PODS, name, namespace, grace_seconds=grace, uid=uid)
        except NotFound:
            return
        except KubeError as error:
            # The controller repeats actions that had no effect.
            log.warning("%s could not be deleted: %s", name, error)
