"""A store in etcd v3, for masters that may have to restart on another machine.

A commit is one transaction that also checks the fence (below). etcd limits the operations in one; a
larger batch is first written to temporary keys in parts, then marked complete by one small write,
and only then applied. A master that finds a complete batch applies it, and deletes an incomplete
one: so large batches, too, are atomic. Every write may happen twice, because etcd may have executed
a request that it did not answer.

One master owns the store at a time, by two keys. ``owner`` has a lease: while the key exists its
master is alive. ``fence`` has no lease and names the last master that took the store; every write
compares it, so a master that was replaced can write nothing more. A master whose lease expired
during an outage of etcd, and that was not replaced meanwhile, still has the fence and takes a new
lease. A killed master's ``owner`` key stays until its lease expires. A successor on another machine
waits for that. On the same machine (and in the same process namespace) it checks whether the old
process is alive, and takes the store or is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from resile.decoding import DecodeError, decode_json, decode_msgpack
from resile.master.store.base import StoreTaken, StoreUnusable
from resile.master.store.etcd_client import (
    EtcdAddress,
    EtcdClient,
    Json,
    absent,
    delete,
    delete_below,
    equals,
    parse_etcd_url,
    put,
)
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
    """A master's ownership of one store."""

    def __init__(self, client: EtcdClient, *, ttl: int) -> None:
        """``ttl``: seconds for which a silent master keeps the store."""
        self._client = client
        self._ttl = ttl
        self._mine = msgspec.json.encode(_this_process())
        self._lease = 0
        self._keeping: asyncio.Task[None] | None = None
        prefix = client.address.prefix
        self._owner_key, self._fence_key = f"{prefix}/owner", f"{prefix}/fence"

    @property
    def guard(self) -> list[Json]:
        """The condition on every write."""
        return [equals(self._fence_key, self._mine)]

    async def take(self) -> None:
        """Become the owner after the previous one's end. Raises StoreTaken if that is alive."""
        self._lease = await self._client.grant(self._ttl)
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
                    *(self._client.address, owner, self._ttl),
                )
            if lives or held_by != awaited or time.monotonic() > deadline:
                raise StoreTaken(
                    f"the store {self._client.address} is in use by a running master ({owner})"
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
            await self._client.transact(self.guard, [delete(self._fence_key)])
            await self._client.revoke(lease)
        except StoreUnusable as error:
            log.debug("the lease could not be revoked: %s", error)

    async def _claim(self) -> bytes | None:
        """Take the store if it has no owner or a dead one; else return the owner."""
        while not await self._take_if(absent(self._owner_key)):
            held_by = await self._client.get(self._owner_key)
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
        return await self._client.transact(
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
                if not await self._client.keep_alive(self._lease):
                    self._lease = await self._client.grant(self._ttl)
                    renewed = put(self._owner_key, self._mine, lease=self._lease)
                    await self._client.transact([*self.guard, absent(self._owner_key)], [renewed])
            except StoreUnusable as error:
                log.warning("%s", error)


def _decode(value: bytes) -> Owner:
    try:
        return decode_json(value, Owner)
    except DecodeError:
        return Owner(token="", host="an unknown machine", pid=0, started=0, world="")


OPEN_TIMEOUT = 10.0
"""Seconds. At the start an unreachable etcd is most likely a wrong address: report it soon."""

MOST_OPERATIONS = 100
"""In one transaction; etcd's --max-txn-ops is 128 unless set otherwise."""

MOST_BYTES = 512 * 1024
"""In one transaction; etcd's --max-request-bytes is 1.5 MiB unless set otherwise."""

Changes = Mapping[str, bytes | None]


class EtcdStore:
    """Records below the prefix of an address."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._client = EtcdClient(address, patience=min(address.patience, OPEN_TIMEOUT))
        self._owner: Ownership | None = None
        self._records = f"{address.prefix}/records/"
        self._parts = f"{address.prefix}/batch/"
        self._complete = f"{address.prefix}/batch-complete"

    @classmethod
    def at(cls, url: str) -> EtcdStore:
        """Return the store at a URL."""
        return cls(parse_etcd_url(url))

    async def load(self) -> dict[str, bytes]:
        """See :class:`resile.master.store.base.Store`."""
        self._owner = Ownership(self._client, ttl=self._address.lease)
        try:
            await self._owner.take()
            await self._finish_batch()
            records = await self._client.list_below(self._records)
        except BaseException:
            await self.close()
            raise
        self._client.patience = self._address.patience
        return records

    async def commit(self, changes: Changes) -> None:
        """See :class:`resile.master.store.base.Store`."""
        transactions = list(split(changes))
        if len(transactions) == 1:
            await self._write(self._operations(transactions[0]))
            return
        for number, part in enumerate(transactions):
            await self._write([put(f"{self._parts}{number:06d}", msgspec.msgpack.encode(part))])
        await self._write([put(self._complete, str(len(transactions)).encode())])
        await self._put_in_place(transactions)

    async def close(self) -> None:
        """See :class:`resile.master.store.base.Store`."""
        owner, self._owner = self._owner, None
        self._client.patience = 0.0
        if owner is not None:
            await owner.give_up()
        await self._client.close()

    async def erase(self) -> None:
        """See :class:`resile.master.store.base.Store`."""
        await self._write([delete_below(self._records)])

    async def _finish_batch(self) -> None:
        """Apply the batch that the last master marked complete; delete one that it did not."""
        parts = await self._client.list_below(self._parts)
        count = await self._client.get(self._complete)
        if count is not None:
            kept = [parts[name] for name in sorted(parts)[: int(count)]]
            batch = [decode_msgpack(part, dict[str, bytes | None]) for part in kept]
            await self._put_in_place(batch)
        elif parts:
            await self._write([delete_below(self._parts)])

    @property
    def how_to_discard(self) -> str:
        """See :class:`resile.master.store.base.Store`."""
        return f"end its processes and delete what is below the prefix of {self._address}"

    async def _put_in_place(self, transactions: list[dict[str, bytes | None]]) -> None:
        for changes in transactions:
            await self._write(self._operations(changes))
        await self._write([delete(self._complete), delete_below(self._parts)])

    def _operations(self, changes: Changes) -> list[Json]:
        return [
            delete(self._records + key) if value is None else put(self._records + key, value)
            for key, value in changes.items()
        ]

    async def _write(self, operations: list[Json]) -> None:
        if self._owner is None:
            raise StoreUnusable(f"the store {self._address} is not open")
        if not await self._client.transact(self._owner.guard, operations):
            raise StoreTaken(f"another master took over the store {self._address}")


def split(changes: Changes) -> Iterator[dict[str, bytes | None]]:
    """Split ``changes`` into transactions of a size that etcd accepts; at least one."""
    piece: dict[str, bytes | None] = {}
    size = 0
    for key, value in changes.items():
        added = len(key) + len(value or b"")
        if piece and (len(piece) >= MOST_OPERATIONS or size + added > MOST_BYTES):
            yield piece
            piece, size = {}, 0
        piece[key] = value
        size += added
    yield piece
