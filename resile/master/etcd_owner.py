"""Ownership of an etcd store: one master at a time, and a fence that stops late writes.

There are two keys. ``owner`` has a lease: while the key exists its master is alive. ``fence`` has
no lease and names the last master that took the store; every write compares it, so a master that
was replaced can write nothing more. A master whose lease expired during an outage of etcd, and that
was not replaced meanwhile, still has the fence and takes a new lease.

A killed master's ``owner`` key stays until its lease expires. A successor on another machine waits
for that. On the same machine (and in the same process namespace) it checks whether the old process
is alive, and takes the store or is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from pathlib import Path

import msgspec

from resile.decoding import DecodeError, decode_json
from resile.master.etcd_gateway import Gateway, Json, absent, delete, equals, put
from resile.master.stores import StoreTaken, StoreUnusable
from resile.system.processes import boot_id, start_time
from resile.wire.auth import new_token

log = logging.getLogger("resile.master")

POLL_INTERVAL = 0.1
"""Seconds between two checks of a waiting master for the end of the previous owner's lease."""

EXPIRY_MARGIN = 2.0
"""Seconds. etcd ends a lease up to a second late, and a busy machine is later still."""

RENEWALS_PER_LEASE = 3


class Owner(msgspec.Struct, frozen=True):
    """The value of both keys: a master's process, and a token unique to it."""

    token: str
    host: str
    pid: int
    started: int
    """When the process started, in ticks since boot: a later one may have the same pid."""

    world: str
    """The scope of the pid: this boot of this machine, and its process namespace."""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def lives(self) -> bool | None:
        """Whether the process is alive; None if that cannot be seen from here."""
        if not self.world or self.world != _this_world():
            return None
        return start_time(self.pid) == self.started


def _this_process() -> Owner:
    return Owner(
        token=new_token(),
        host=socket.gethostname(),
        pid=os.getpid(),
        started=start_time(os.getpid()) or 0,
        world=_this_world(),
    )


def _this_world() -> str:
    try:
        boot = boot_id()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return f"{boot}/{namespace}"


class Ownership:
    """One master's ownership of one store."""

    def __init__(self, gateway: Gateway, *, ttl: int) -> None:
        """``ttl``: seconds for which a silent master keeps the store."""
        self._gateway = gateway
        self._ttl = ttl
        self._mine = msgspec.json.encode(_this_process())
        self._lease = 0
        self._keeping: asyncio.Task[None] | None = None
        prefix = gateway.address.prefix
        self._owner_key, self._fence_key = f"{prefix}/owner", f"{prefix}/fence"

    @property
    def guard(self) -> list[Json]:
        """The condition on every write."""
        return [equals(self._fence_key, self._mine)]

    async def take(self) -> None:
        """Become the owner after the previous one's end. Raises StoreTaken if that is alive."""
        self._lease = await self._gateway.grant(self._ttl)
        self._keeping = asyncio.create_task(self._keep())
        awaited: bytes | None = None
        deadline = time.monotonic() + self._ttl + EXPIRY_MARGIN
        while (held_by := await self._claim()) is not None:
            owner = _decode(held_by)
            lives = owner.lives()
            if awaited is None and lives is None:
                awaited = held_by
                log.info(
                    "the store %s is held by %s: waiting up to %d s for the end of its lease",
                    *(self._gateway.address, owner, self._ttl),
                )
            if lives or held_by != awaited or time.monotonic() > deadline:
                raise StoreTaken(
                    f"the store {self._gateway.address} is in use by a running master ({owner})"
                )
            await asyncio.sleep(POLL_INTERVAL)

    async def give_up(self) -> None:
        """Release the store for the next master, if etcd can be reached."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        if not self._lease:
            return
        lease, self._lease = self._lease, 0
        try:
            await self._gateway.transact(self.guard, [delete(self._fence_key)])
            await self._gateway.revoke(lease)
        except StoreUnusable as error:
            log.debug("the lease could not be revoked: %s", error)

    async def _claim(self) -> bytes | None:
        """Take the store if it has no owner or a dead one; else return the owner."""
        while not await self._take_if(absent(self._owner_key)):
            held_by = await self._gateway.get(self._owner_key)
            if held_by is None:
                continue
            if held_by == self._mine:
                return None
            if _decode(held_by).lives() is not False:
                return held_by
            if await self._take_if(equals(self._owner_key, held_by)):
                return None
        return None

    async def _take_if(self, condition: Json) -> bool:
        return await self._gateway.transact(
            [condition],
            [
                put(self._owner_key, self._mine, lease=self._lease),
                put(self._fence_key, self._mine),
            ],
        )

    async def _keep(self) -> None:
        """Renew the lease, or take a new one under the same fence, until cancelled."""
        while True:
            await asyncio.sleep(self._ttl / RENEWALS_PER_LEASE)
            try:
                if not await self._gateway.keep_alive(self._lease):
                    self._lease = await self._gateway.grant(self._ttl)
                    renewed = put(self._owner_key, self._mine, lease=self._lease)
                    await self._gateway.transact([*self.guard, absent(self._owner_key)], [renewed])
            except StoreUnusable as error:
                log.warning("%s", error)


def _decode(value: bytes) -> Owner:
    try:
        return decode_json(value, Owner)
    except DecodeError:
        return Owner(token="", host="an unknown machine", pid=0, started=0, world="")
