"""Leader election among operators by a Lease: the holder is the leader.

The leader renews the Lease every few seconds. The others watch whether it changes, each by its own
monotonic clock, and acquire it when it has not changed for its duration. Clocks of two machines are
never compared; the times in the Lease are for people. A leader that cannot renew stops leading
after ``renew_deadline``, counted from when it sent its last successful write. That is before anyone
else can have started to count, and shorter than what they count to, so there are never two leaders,
unless a person deletes the Lease or a process sleeps through its own deadline. Everything a leader
does has to be harmless then: idempotent, or rejected because of its resourceVersion.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from resile.kube.client import KubeClient
from resile.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from resile.kube.resources import LEASES, KubeObject

__all__ = ["LeaderElection", "LeaseTimes", "ObservedLease", "own_identity"]

log = logging.getLogger("resile.operator")

RELEASE_TIMEOUT = 3.0
"""Seconds. A successor that has to wait until the lease expires does no harm; an operator that does
not stop does."""


@dataclass(frozen=True)
class LeaseTimes:
    """Durations in seconds; the defaults are those of Kubernetes' own components."""

    lease: float = 15.0
    """A lease that has not changed for so long is free."""

    renew_deadline: float = 10.0
    """A leader that could not renew its lease for so long stops leading."""

    retry: float = 2.0
    """The interval between two attempts to acquire or renew it."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.lease:
            raise ValueError(
                f"retry ({self.retry:g} s) must be shorter than the renew deadline "
                f"({self.renew_deadline:g} s), and that shorter than the lease ({self.lease:g} s)"
            )


@dataclass(frozen=True)
class ObservedLease:
    """The spec of a Lease, and when, by our clock, it was first observed."""

    spec: KubeObject
    at: float

    def updated(self, spec: KubeObject, *, now: float) -> ObservedLease:
        """Return the record after another observation; the time changes only with the spec."""
        return self if spec == self.spec else ObservedLease(spec, now)

    def free(self, identity: str, *, now: float) -> bool:
        """Return whether ``identity`` may acquire the lease."""
        holder = self.spec.get("holderIdentity")
        given_for = self.spec.get("leaseDurationSeconds") or 0
        return not holder or holder == identity or now >= self.at + given_for


def own_identity() -> str:
    """A name that is unique to this process, across restarts."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElection:
    """A candidate for the leadership."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        *,
        namespace: str,
        identity: str | None = None,
        times: LeaseTimes | None = None,
    ) -> None:
        """``name``, ``namespace``: of the Lease."""
        self.identity = identity or own_identity()
        self.leading = False
        self.leader = ""
        """The identity of the leader, as far as is known here; empty if there is none."""
        self._client = client
        self._name = name
        self._namespace = namespace
        self._times = times or LeaseTimes()
        self._observed: ObservedLease | None = None
        self._held_until = 0.0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run ``lead`` while, and only while, the lease is held.

        ``lead`` is cancelled when the lease is lost, must then return at once, and is called again
        when the lease is acquired again. Returns when ``lead`` does. The lease is released in any
        case, cancellation included.
        """
        try:
            while not await self._lead(lead):
                log.warning("lost leadership (%s)", self.identity)
        finally:
            await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Wait for the lease and run ``lead`` once; return whether it completed."""
        while not await self._attempt():
            await asyncio.sleep(self._times.retry)
        log.info("became the leader (%s)", self.identity)
        self.leading = True
        work = asyncio.ensure_future(lead())
        keeping = asyncio.ensure_future(self._keep())
        try:
            while (left := self._held_until - time.monotonic()) > 0:
                await asyncio.wait(
                    {work, keeping}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if work.done():
                    work.result()
                    return True
                if keeping.done():
                    keeping.result()
                    return False
            return False
        finally:
            self.leading = False
            work.cancel()
            keeping.cancel()
            await asyncio.gather(work, keeping, return_exceptions=True)

    async def _keep(self) -> None:
        """Renew the lease periodically. Returns when another candidate holds it."""
        while True:
            await asyncio.sleep(self._times.retry)
            if not await self._attempt() and self.leader != self.identity:
                return

    async def _attempt(self) -> bool:
        """Try once to acquire or renew the lease."""
        sent = time.monotonic()
        try:
            taken = await self._take()
        except (Conflict, AlreadyExists):
            return False
        except KubeError as error:
            log.warning("cannot acquire or renew the lease %s: %s", self._name, error)
            return False
        if taken:
            self._held_until = sent + self._times.renew_deadline
        return taken

    async def _take(self) -> bool:
        """Read the lease, and write it if it is ours or free. A concurrent change is a Conflict."""
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            metadata = {"name": self._name, "namespace": self._namespace}
            lease = {"metadata": metadata, "spec": self._claim({})}
            self._see(await self._client.create(LEASES, lease))
            return True
        sighting = self._see(lease)
        if not sighting.free(self.identity, now=time.monotonic()):
            return False
        self._see(await self._write(lease, self._claim(sighting.spec)))
        return True

    def _see(self, lease: KubeObject) -> ObservedLease:
        now = time.monotonic()
        spec = lease.get("spec") or {}
        last = self._observed or ObservedLease(spec, now)
        self._observed = last.updated(spec, now=now)
        self.leader = spec.get("holderIdentity") or ""
        return self._observed

    async def _write(self, lease: KubeObject, spec: KubeObject) -> KubeObject:
        seen = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        body = {"metadata": seen, "spec": spec}
        return await self._client.patch(LEASES, self._name, body, namespace=self._namespace)

    def _claim(self, before: KubeObject) -> KubeObject:
        ours = before.get("holderIdentity") == self.identity
        now = _micro_time()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._times.lease),
            "acquireTime": before.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0)
            + (1 if before and not ours else 0),
        }

    async def _release(self) -> None:
        """Release the lease, so that another candidate can lead at once."""
        try:
            await asyncio.wait_for(self._give_back(), RELEASE_TIMEOUT)
        except (KubeError, asyncio.TimeoutError) as error:
            log.info("the lease %s was not released: %s", self._name, error)

    async def _give_back(self) -> None:
        lease = await self._client.get(LEASES, self._name, self._namespace)
        if self._see(lease).spec.get("holderIdentity") == self.identity:
            await self._write(lease, {"holderIdentity": None, "renewTime": _micro_time()})
            self.leader = ""


def _micro_time() -> str:
    """The time as a Lease has it: with exactly six digits after the point."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
