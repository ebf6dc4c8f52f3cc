"""Sees to it that a job has its token, its services and a master.

Level-triggered like everything here: what is missing is made, whatever became of it. A master's
pod that is gone, ended or on a lost machine is replaced under a new name; one that merely crashed
is started again in place by its kubelet, over the same store.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resile.control.pods import MachineState
from resile.job.node import serial_of
from resile.job.spec import ElasticJob
from resile.platform.kubernetes import attendants as made
from resile.platform.kubernetes import names
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import AlreadyExists, NotFound
from resile.platform.kubernetes.facts import machine_state
from resile.platform.kubernetes.gang import POD_GROUPS, pod_group
from resile.platform.kubernetes.kinds import PODS, SECRETS, SERVICES, KubeObject
from resile.wire.auth import new_token
from resile.wire.endpoint import DEFAULT_PORT, Endpoint

__all__ = ["Attendants", "current_master", "master_address", "next_serial"]

_LOST = frozenset({MachineState.UNKNOWN, MachineState.GONE})


class Attendants:
    """What one job has beside its nodes."""

    def __init__(self, client: KubeClient, job: ElasticJob, *, uid: str, image: str) -> None:
        self._client = client
        self._job = job
        self._uid = uid
        self._image = image
        self._namespace = job.metadata.namespace

    async def token(self) -> str:
        """The job's token; made if there is none."""
        name = names.token_secret(self._job.metadata.name)
        try:
            secret = await self._client.get(SECRETS, name, self._namespace)
        except NotFound:
            secret = await self._make_token(name)
        return base64.b64decode(secret["data"][made.TOKEN_KEY]).decode()

    async def _make_token(self, name: str) -> KubeObject:
        secret = made.token_secret(self._job, uid=self._uid, token=new_token())
        try:
            return await self._client.create(SECRETS, secret)
        except AlreadyExists:
            return await self._client.get(SECRETS, name, self._namespace)

    async def serve(self) -> None:
        """Have the services."""
        for service in (
            made.master_service(self._job, uid=self._uid),
            made.nodes_service(self._job, uid=self._uid),
        ):
            await self._client.apply(SERVICES, service)

    async def group(self) -> bool:
        """Have the PodGroup, if one is wanted; False if this cluster does not know any."""
        wanted = pod_group(self._job, uid=self._uid)
        if wanted is None:
            return True
        try:
            await self._client.apply(POD_GROUPS, wanted)
        except NotFound:
            return False
        return True

    async def start_master(self, serial: int) -> KubeObject | None:
        """A new master; None if it is there already."""
        pod = made.master_pod(self._job, uid=self._uid, image=self._image, serial=serial)
        try:
            return await self._client.create(PODS, pod)
        except AlreadyExists:
            return None

    async def end_masters(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """They are not needed any more."""
        for pod in pods:
            metadata = pod["metadata"]
            if "deletionTimestamp" not in metadata:
                try:
                    await self._client.delete(
                        PODS, metadata["name"], self._namespace, uid=metadata["uid"]
                    )
                except NotFound:
                    continue


def current_master(
    pods: Sequence[KubeObject], machines: Mapping[str, KubeObject]
) -> KubeObject | None:
    """The master that lives, or is being started; of several the newest."""
    usable = [pod for pod in pods if _usable(pod, machines)]
    return max(usable, key=_serial, default=None)


def next_serial(pods: Iterable[KubeObject]) -> int:
    """The number of the next master's pod: above all that are there, so that a name that a lost
    machine still holds is not waited for."""
    return max((_serial(pod) for pod in pods), default=-1) + 1


def master_address(pod: KubeObject | None) -> Endpoint | None:
    """Where the operator reaches it, once it runs."""
    status = {} if pod is None else pod.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") != "Running":
        return None
    return Endpoint(address, DEFAULT_PORT)


def _usable(pod: KubeObject, machines: Mapping[str, KubeObject]) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    host = pod["spec"].get("nodeName")
    return not host or machine_state(machines.get(host)) not in _LOST


def _serial(pod: KubeObject) -> int:
    return serial_of(pod["metadata"]["name"]) or 0
