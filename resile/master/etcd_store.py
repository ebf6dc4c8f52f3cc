"""A store in etcd v3, for masters that may have to restart on another machine.

A commit is one transaction that also checks the fence (``etcd_owner.py``). etcd limits the
operations in one; a larger batch is first written to temporary keys in parts, then marked complete
by one small write, and only then applied. A master that finds a complete batch applies it, and
deletes an incomplete one: so large batches, too, are atomic.

Every write may happen twice, because etcd may have executed a request that it did not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from resile.decoding import decode_msgpack
from resile.master.etcd_address import EtcdAddress, parse_etcd_url
from resile.master.etcd_gateway import Gateway, Json, delete, delete_below, put
from resile.master.etcd_owner import Ownership
from resile.master.stores import StoreTaken, StoreUnusable

OPEN_PATIENCE = 10.0
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
        self._gateway = Gateway(address, patience=min(address.patience, OPEN_PATIENCE))
        self._owner: Ownership | None = None
        self._records = f"{address.prefix}/records/"
        self._parts = f"{address.prefix}/batch/"
        self._complete = f"{address.prefix}/batch-complete"

    @classmethod
    def at(cls, url: str) -> EtcdStore:
        """Return the store at a URL."""
        return cls(parse_etcd_url(url))

    async def load(self) -> dict[str, bytes]:
        """See :class:`resile.master.stores.Store`."""
        self._owner = Ownership(self._gateway, ttl=self._address.lease)
        try:
            await self._owner.take()
            await self._finish_batch()
            records = await self._gateway.list_below(self._records)
        except BaseException:
            await self.close()
            raise
        self._gateway.patience = self._address.patience
        return records

    async def commit(self, changes: Changes) -> None:
        """See :class:`resile.master.stores.Store`."""
        transactions = list(split(changes))
        if len(transactions) == 1:
            await self._write(self._operations(transactions[0]))
            return
        for number, part in enumerate(transactions):
            await self._write([put(f"{self._parts}{number:06d}", msgspec.msgpack.encode(part))])
        await self._write([put(self._complete, str(len(transactions)).encode())])
        await self._put_in_place(transactions)

    async def close(self) -> None:
        """See :class:`resile.master.stores.Store`."""
        owner, self._owner = self._owner, None
        self._gateway.patience = 0.0
        if owner is not None:
            await owner.give_up()
        await self._gateway.close()

    async def erase(self) -> None:
        """See :class:`resile.master.stores.Store`."""
        await self._write([delete_below(self._records)])

    async def _finish_batch(self) -> None:
        """Apply the batch that the last master marked complete; delete one that it did not."""
        parts = await self._gateway.list_below(self._parts)
        count = await self._gateway.get(self._complete)
        if count is not None:
            kept = [parts[name] for name in sorted(parts)[: int(count)]]
            batch = [decode_msgpack(part, dict[str, bytes | None]) for part in kept]
            await self._put_in_place(batch)
        elif parts:
            await self._write([delete_below(self._parts)])

    @property
    def how_to_forget(self) -> str:
        """See :class:`resile.master.stores.Store`."""
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
        if not await self._gateway.transact(self._owner.guard, operations):
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
