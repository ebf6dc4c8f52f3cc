"""Create or adopt the objects that a job has besides its nodes: token, services, master.

Level-triggered like everything here: whatever is missing is created. An object that has the name
but belongs to another owner is left alone and reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from resile.job.addresses import Addresses
from resile.job.naming import rank_service_name, token_secret_name
from resile.job.spec.job import ElasticJob
from resile.kube.client import KubeClient
from resile.kube.errors import AlreadyExists, Conflict, NotFound
from resile.kube.resources import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICES,
    KubeObject,
    Resource,
)
from resile.operator.build import master as made
from resile.operator.build.gang import POD_GROUPS, build_pod_group
from resile.operator.build.labels import JOB, RANK, ROLE
from resile.operator.build.master import JobSecret, read_secret
from resile.operator.certificates import issue_certificate
from resile.operator.observe.nodes import owned_by
from resile.wire.auth import new_token

__all__ = ["ChildObjects", "Slot", "ChildUnavailable"]

NAMES_TRIED = 10
"""Names of master pods that are tried when others are taken by pods of other owners."""

LARGEST_MAP = 900_000
"""Bytes of addresses. A ConfigMap has at most 1 MiB."""

AT_ONCE = 8
"""Concurrent requests for Services."""

Slot = tuple[str, int]
"""A role and a rank."""


class ChildUnavailable(Exception):
    """An object that a job needs besides its nodes is unavailable, for a reason a user can fix."""


@dataclass(frozen=True)
class Held:
    """The job's secret, as the cluster holds it."""

    secret: JobSecret
    fresh: bool
    """True if it was created just now, so that no pod has it yet."""


class ChildObjects:
    """The objects of one job besides its nodes."""

    def __init__(self, client: KubeClient, job: ElasticJob, *, uid: str, image: str) -> None:
        self._client = client
        self._job = job
        self._uid = uid
        self._image = image
        self._namespace = job.metadata.namespace

    async def serve(self) -> None:
        """Ensure the Services of the master and of the nodes."""
        await self._ours(SERVICES, made.build_master_service(self._job, uid=self._uid))
        wanted = made.build_nodes_service(self._job, uid=self._uid)
        await self._with_ports(await self._ours(SERVICES, wanted), wanted)

    async def ensure_rank_services(
        self, ranks: Collection[Slot], *, kept: Collection[Slot]
    ) -> None:
        """Ensure a Service for each of ``ranks``; delete those of ranks that are not ``kept``."""
        selector = f"{JOB}={self._job.metadata.name},{ROLE},{RANK}"
        listed = await self._client.list(SERVICES, namespace=self._namespace, labels=selector)
        ours = [one for one in listed.items if owned_by(self._uid, one)]
        found = {slot: one for one in ours if (slot := _slot_of(one)) is not None}
        turn = asyncio.Semaphore(AT_ONCE)

        async def have(slot: Slot) -> None:
            async with turn:
                await self._serve_rank(slot, found.get(slot))

        outcomes = await asyncio.gather(*map(have, ranks), return_exceptions=True)
        for slot, service in found.items():
            if slot not in kept and slot not in ranks:
                await self._delete(SERVICES, service)
        for trouble in outcomes:
            if trouble is not None:
                raise trouble

    async def _serve_rank(self, slot: Slot, found: KubeObject | None) -> None:
        role, rank = slot
        name = rank_service_name(self._job, role, rank)
        if name is None:
            return
        if found is not None and found["metadata"]["name"] != name:
            await self._delete(SERVICES, found)
            found = None
        wanted = made.build_rank_service(self._job, name=name, role=role, rank=rank, uid=self._uid)
        if found is None:
            found = self._checked(SERVICES, await self._make(SERVICES, wanted))
        await self._with_ports(found, wanted)

    async def _with_ports(self, found: KubeObject, wanted: KubeObject) -> None:
        """Update a Service's ports if the manifest's have changed."""
        if _ports_of(found) != _ports_of(wanted):
            name, ports = wanted["metadata"]["name"], wanted["spec"]["ports"]
            body = {"spec": {"ports": ports}}
            await self._client.patch(SERVICES, name, body, namespace=self._namespace)

    async def ensure_addresses(self, addresses: Addresses) -> None:
        """Ensure the ConfigMap with the addresses of all nodes."""
        wanted = made.build_addresses_map(self._job, addresses, uid=self._uid)
        name, data = wanted["metadata"]["name"], wanted["data"]
        if sum(map(len, data.values())) > LARGEST_MAP:
            raise ChildUnavailable(
                f"the addresses of its nodes exceed the {LARGEST_MAP} bytes that fit into a "
                "ConfigMap: nodes have to find each other by the pattern of their hostnames"
            )
        found = await self._ours(CONFIG_MAPS, wanted)
        if found.get("data") != data:
            await self._client.patch(CONFIG_MAPS, name, {"data": data}, namespace=self._namespace)

    async def secret(self, known: JobSecret | None = None, *, in_use: bool) -> Held:
        """Return the job's token and certificate; create them if there are none. ``known``: those
        that its pods have, in case the Secret was deleted; ``in_use``: whether nodes are running
        with them."""
        name = token_secret_name(self._job)
        new: JobSecret | None = None
        try:
            found = await self._client.get(SECRETS, name, self._namespace)
        except NotFound:
            self._check_not_lost(name, known, in_use=in_use)
            new = known or self._new_secret()
            wanted = made.build_token_secret(self._job, uid=self._uid, secret=new)
            found = await self._make(SECRETS, wanted)
        try:
            secret = read_secret(self._checked(SECRETS, found))
        except ValueError as error:
            raise ChildUnavailable(
                f"the Secret {name} cannot be used: {error}; delete it to have it recreated"
            ) from None
        return Held(secret, fresh=secret == new and known is None)

    def _new_secret(self) -> JobSecret:
        if not self._job.spec.master.tls:
            return JobSecret(new_token())
        issued = issue_certificate(made.master_hosts(self._job))
        return JobSecret(new_token(), issued.authority, issued.certificate, issued.key)

    @staticmethod
    def _check_not_lost(name: str, known: JobSecret | None, *, in_use: bool) -> None:
        """Refuse to replace a secret that running pods use: old and new ones could not talk to
        each other."""
        if in_use and known is None:
            raise ChildUnavailable(
                f"the Secret {name} was deleted while running pods use it: suspend the job and "
                "resume it to get a new one"
            )

    async def group(self) -> bool:
        """Ensure the PodGroup, if one is wanted; False if the cluster does not serve PodGroups."""
        wanted = build_pod_group(self._job, uid=self._uid)
        if wanted is None:
            return True
        try:
            found = await self._ours(POD_GROUPS, wanted)
        except NotFound:
            return False
        if (found.get("spec") or {}).get("minMember") != wanted["spec"]["minMember"]:
            await self._client.apply(POD_GROUPS, wanted)
        return True

    async def start_master(self, serial: int, *, tls: bool, after_round: int) -> KubeObject | None:
        """Create a new master pod; None if it exists already. ``tls``, ``after_round``: see
        ``build_master_pod``."""
        for number in range(serial, serial + NAMES_TRIED):
            pod = made.build_master_pod(
                self._job,
                uid=self._uid,
                image=self._image,
                serial=number,
                tls=tls,
                after_round=after_round,
            )
            try:
                return await self._client.create(PODS, pod)
            except AlreadyExists:
                found = await self._client.get(PODS, pod["metadata"]["name"], self._namespace)
                if owned_by(self._uid, found):
                    return None
        raise ChildUnavailable(
            f"all names for its master up to {pod['metadata']['name']} are taken by other pods"
        )

    async def delete_masters(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Delete masters that are no longer needed."""
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                await self._delete(PODS, pod)

    async def _delete(self, kind: Resource, found: Mapping[str, Any]) -> None:
        metadata = found["metadata"]
        try:
            await self._client.delete(kind, metadata["name"], self._namespace, uid=metadata["uid"])
        except (Conflict, NotFound):
            return  # it is gone, and a new object may have its name

    async def _ours(self, kind: Resource, wanted: KubeObject) -> KubeObject:
        """Get the object of that name, or create it."""
        name = wanted["metadata"]["name"]
        try:
            found = await self._client.get(kind, name, self._namespace)
        except NotFound:
            found = await self._make(kind, wanted)
        return self._checked(kind, found)

    def _checked(self, kind: Resource, found: KubeObject) -> KubeObject:
        if owned_by(self._uid, found):
            return found
        raise ChildUnavailable(
            f"the {kind.kind} {found['metadata']['name']} exists and does not belong to this job: "
            "delete it, or give the job another name"
        )

    async def _make(self, kind: Resource, wanted: KubeObject) -> KubeObject:
        try:
            return await self._client.create(kind, wanted)
        except AlreadyExists:
            return await self._client.get(kind, wanted["metadata"]["name"], self._namespace)


def _slot_of(service: KubeObject) -> Slot | None:
    """Return the rank that a Service is for; None if its labels are not ours."""
    labels = service["metadata"]["labels"]
    return (labels[ROLE], int(labels[RANK])) if labels[RANK].isdecimal() else None


def _ports_of(service: KubeObject) -> set[tuple[str, int]]:
    ports = service["spec"].get("ports") or ()
    return {(one.get("name") or "", one["port"]) for one in ports}
