"""Sees to it that a job has its token, its services and a master.

Level-triggered like everything here: what is missing is made, whatever became of it. What is there
under a name of ours and belongs to somebody else is left alone, and said.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from resile.job.spec import ElasticJob
from resile.platform.kubernetes import attendants as made
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import AlreadyExists, Conflict, NotFound
from resile.platform.kubernetes.gang import POD_GROUPS, pod_group
from resile.platform.kubernetes.kinds import PODS, SECRETS, SERVICES, Kind, KubeObject
from resile.platform.kubernetes.observing import owned_by
from resile.wire.auth import new_token

__all__ = ["Attendants", "Unattended"]

NAMES_TRIED = 10
"""Pods of a master's name that belong to others are passed by; so many there never are."""


class Unattended(Exception):
    """Something that a job needs beside its nodes cannot be had, for a reason a person can mend."""


@dataclass(frozen=True)
class Token:
    """What a job's pods know each other by."""

    text: str
    fresh: bool
    """Whether it was made just now."""


class Attendants:
    """What one job has beside its nodes."""

    def __init__(self, client: KubeClient, job: ElasticJob, *, uid: str, image: str) -> None:
        self._client = client
        self._job = job
        self._uid = uid
        self._image = image
        self._namespace = job.metadata.namespace

    async def serve(self) -> None:
        """Have the services."""
        await self._ours(SERVICES, made.master_service(self._job, uid=self._uid))
        await self._ours(SERVICES, made.nodes_service(self._job, uid=self._uid))

    async def token(self, known: str | None = None, *, in_use: bool) -> Token:
        """The job's token, made if there is none. ``known``: the one that its pods have, should
        somebody have deleted it; ``in_use``: whether nodes run, which have one."""
        text = known or new_token()
        wanted = made.token_secret(self._job, uid=self._uid, token=text)
        if in_use and known is None:
            secret = await self._lost_token(wanted["metadata"]["name"])
        else:
            secret = await self._ours(SECRETS, wanted)
        try:
            found = base64.b64decode(secret["data"][made.TOKEN_KEY]).decode()
            return Token(found, fresh=found == text)
        except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
            name = wanted["metadata"]["name"]
            raise Unattended(
                f"the Secret {name} has no {made.TOKEN_KEY}; delete it, and another is made"
            ) from None

    async def _lost_token(self, name: str) -> KubeObject:
        """The token, which must not be another than the one that pods run with: they would not
        hear each other."""
        try:
            return self._checked(SECRETS, await self._client.get(SECRETS, name, self._namespace))
        except NotFound:
            raise Unattended(
                f"the Secret {name} was deleted, and only pods that run know what was in it: "
                "suspend the job and resume it, and it gets another"
            ) from None

    async def group(self) -> bool:
        """Have the PodGroup, if one is wanted; False if this cluster does not know any."""
        wanted = pod_group(self._job, uid=self._uid)
        if wanted is None:
            return True
        try:
            found = await self._ours(POD_GROUPS, wanted)
        except NotFound:
            return False
        if (found.get("spec") or {}).get("minMember") != wanted["spec"]["minMember"]:
            await self._client.apply(POD_GROUPS, wanted)
        return True

    async def start_master(self, serial: int, *, after_round: int) -> KubeObject | None:
        """A new master; None if it is there already. ``after_round``: see ``master_pod``."""
        for number in range(serial, serial + NAMES_TRIED):
            pod = made.master_pod(
                self._job,
                uid=self._uid,
                image=self._image,
                serial=number,
                after_round=after_round,
            )
            try:
                return await self._client.create(PODS, pod)
            except AlreadyExists:
                found = await self._client.get(PODS, pod["metadata"]["name"], self._namespace)
                if owned_by(self._uid, found):
                    return None
        raise Unattended(f"all names for its master up to {pod['metadata']['name']} are taken")

    async def end_masters(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """They are not needed any more."""
        for pod in pods:
            metadata = pod["metadata"]
            if "deletionTimestamp" not in metadata:
                try:
                    await self._client.delete(
                        PODS, metadata["name"], self._namespace, uid=metadata["uid"]
                    )
                except (Conflict, NotFound):
                    continue  # It is gone, and another may have its name.

    async def _ours(self, kind: Kind, wanted: KubeObject) -> KubeObject:
        """The object of that name; made if there is none."""
        name = wanted["metadata"]["name"]
        try:
            found = await self._client.get(kind, name, self._namespace)
        except NotFound:
            found = await self._make(kind, wanted)
        return self._checked(kind, found)

    def _checked(self, kind: Kind, found: KubeObject) -> KubeObject:
        if owned_by(self._uid, found):
            return found
        raise Unattended(
            f"there is a {kind.kind} {found['metadata']['name']} that is not this job's: it has to "
            "go, or the job needs another name"
        )

    async def _make(self, kind: Kind, wanted: KubeObject) -> KubeObject:
        try:
            return await self._client.create(kind, wanted)
        except AlreadyExists:
            return await self._client.get(kind, wanted["metadata"]["name"], self._namespace)
