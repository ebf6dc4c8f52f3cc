"""One dataset that is leased: its pool, its clients, and the records of both. Pure.

With rounds a shard counts when it is in a snapshot or checkpoint, which the master does not see:
what was handed out stays handed out until the next round begins the dataset anew. Without rounds a
client holds its shards until it reports them as done, gives them back, is gone, or lets their time
run out; everything handed out and not held is done, so what is done need never be written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from resile.job.events import EventKind
from resile.master.shards_records import (
    BegunRecord,
    ClientRecord,
    DatasetRecords,
    PoolRecord,
    begun_key,
    client_key,
    pool_key,
)
from resile.wire.shards import DatasetSpec, Pace, Shard
from resile.wire.shards_order import fair_share
from resile.wire.shards_pool import Pool
from resile.wire.shards_spans import Spans


class LeaseJournal(Protocol):
    """Collects records to keep and events to publish; the master carries them out."""

    def keep(self, key: str, record: msgspec.Struct) -> None:
        """Write a record to the store."""

    def forget(self, key: str) -> None:
        """Delete a record from the store."""

    def tell(self, kind: EventKind, text: str, now: float, *, round: int, group: str = "") -> None:
        """Publish an event."""


@dataclass
class Client:
    """One who takes from a dataset."""

    number: int = 0
    answer: tuple[Shard, ...] = ()
    held: dict[Shard, float] = field(default_factory=dict)
    """Leased and not done, each with the time at which its lease is void. Without rounds only."""


@dataclass
class Traffic:
    """Records that went out and came back, in all epochs and rounds of this master."""

    leased: int = 0
    returned: int = 0
    """Not trained, or trained in vain: whoever held them is gone, slow, or gave them back."""


class Dataset:
    """One begun dataset. Every change of it is told to the journal."""

    def __init__(
        self, begun: BegunRecord, journal: LeaseJournal, *, traffic: Traffic | None = None
    ) -> None:
        """``traffic``: that of the begin before this one."""
        self.begun = begun
        self.clients: dict[str, Client] = {}
        self._journal = journal
        self.pool = _pool_of(begun)
        self.open = self.pool.left
        """Records that were not done when it was begun; None for a stream."""
        self.traffic = traffic or Traffic()

    @classmethod
    def restore(cls, records: DatasetRecords, journal: LeaseJournal, *, now: float) -> Dataset:
        """Go on from what a store kept; every lease gets its whole time again."""
        restored = cls(records.begun, journal)
        if records.pool is not None:
            restored.pool = _pool_of(records.begun, records.pool)
        until = now + records.begun.spec.patience
        for kept in records.clients:
            held = dict.fromkeys(kept.held, until)
            restored.clients[kept.client] = Client(kept.number, kept.answer, held)
        return restored

    @property
    def spec(self) -> DatasetSpec:
        """What is handed out, and how."""
        return self.begun.spec

    @property
    def held(self) -> int:
        """How many shards are leased and not done, without rounds."""
        return sum(len(client.held) for client in self.clients.values())

    @property
    def held_records(self) -> int:
        """How many records are in them."""
        return sum(_records_of(client.held) for client in self.clients.values())

    def held_by_others(self, name: str) -> int:
        """How many of these are not with this client."""
        own = self.clients.get(name)
        return self.held - (len(own.held) if own else 0)

    def keep(self) -> None:
        """Have a newly begun dataset kept, before anything is taken from it."""
        self._journal.keep(begun_key(self.begun.key), self.begun)
        self._keep_pool()

    def forget_clients(self) -> None:
        """Nobody holds anything of it any more: another begin takes its place."""
        for client in self.clients:
            self._journal.forget(client_key(self.begun.key, client))

    def begun_anew(self, begun: BegunRecord) -> Dataset:
        """What takes its place when a round begins it from a restored state."""
        self.forget_clients()
        following = Dataset(begun, self._journal, traffic=self.traffic)
        if begun.spec.sizes == self.spec.sizes:
            # Handed out, but not in the state that was restored.
            self.traffic.returned += max(0, self._gone_through() - following._gone_through())
        return following

    def next_epoch(self) -> Dataset:
        """The same dataset from its beginning."""
        self.forget_clients()
        begun = BegunRecord(
            dataset=self.begun.dataset,
            spec=self.spec,
            epoch=self.begun.epoch + 1,
            digest=self.begun.digest,
            done=tuple(() for _ in self.begun.done),
            round=self.begun.round,
            generation=self.begun.generation,
        )
        following = Dataset(begun, self._journal, traffic=self.traffic)
        following.clients = {
            name: Client(number=client.number) for name, client in self.clients.items()
        }
        following.keep()
        return following

    def take(self, name: str, number: int, *, records: int, shards: int, now: float) -> list[Shard]:
        """Hand out, and remember it as the answer to this request."""
        client = self.clients.setdefault(name, Client())
        if self.spec.pace is Pace.APART and self.pool.left is not None:
            fair = fair_share(
                self.pool.left, clients=len(self.clients), shard_size=self.spec.shard_size
            )
            records = min(records, fair * max(1, shards))
            taken = self._cut(records, shards, fair)
        else:
            taken = self.pool.take(records=records, shards=shards)
        client.number, client.answer = number, tuple(taken)
        self.traffic.leased += _records_of(taken)
        if self.begun.round is None:
            client.held.update(dict.fromkeys(taken, now + self.spec.patience))
        self._keep_client(name, client)
        if taken:
            self._keep_pool()
        return taken

    def _cut(self, records: int, shards: int, fair: int) -> list[Shard]:
        """Several shards, none larger than is fair."""
        taken: list[Shard] = []
        while records > 0 and len(taken) < shards:
            cut = self.pool.take(records=min(records, fair), shards=1)
            if not cut:
                break
            records -= len(cut[0])
            taken += cut
        return taken

    def settle(
        self, name: str, number: int, *, done: Sequence[Shard], returned: Sequence[Shard]
    ) -> Shard | None:
        """Take shards off a client's hands; the first it does not hold, in which case none is."""
        client = self.clients.setdefault(name, Client())
        for shard in (*done, *returned):
            if shard not in client.held:
                return shard
        for shard in (*done, *returned):
            client.held.pop(shard, None)
        # The same request may come again: it is settled, and only to be answered.
        client.number, client.answer = number, ()
        self._keep_client(name, client)
        self._reclaim(returned)
        return None

    def release(self, name: str) -> int:
        """A client is gone: what it held can be taken by others. How many shards that were."""
        client = self.clients.pop(name, None)
        if client is None:
            return 0
        self._journal.forget(client_key(self.begun.key, name))
        return self._reclaim(list(client.held))

    def expire(self, now: float) -> int:
        """Take back what was held for too long. How many shards that were."""
        count = 0
        for name, client in self.clients.items():
            over = [shard for shard, until in client.held.items() if until <= now]
            for shard in over:
                del client.held[shard]
            if over:
                self._keep_client(name, client)
                count += self._reclaim(over)
        return count

    def _reclaim(self, shards: Sequence[Shard]) -> int:
        if shards:
            self.traffic.returned += _records_of(shards)
            self.pool.put_back(shards)
            self._keep_pool()
        return len(shards)

    def _gone_through(self) -> int:
        """Records of all epochs that were done or handed out so far; 0 for a stream."""
        total = sum(self.spec.sizes)
        return (self.begun.epoch + 1) * total - (self.pool.left or 0)

    def _keep_pool(self) -> None:
        begun = self.begun
        record = PoolRecord(dataset=begun.dataset, pool=self.pool.state(), group=begun.group)
        self._journal.keep(pool_key(begun.key), record)

    def _keep_client(self, name: str, client: Client) -> None:
        record = ClientRecord(
            dataset=self.begun.dataset,
            client=name,
            number=client.number,
            answer=client.answer,
            held=tuple(client.held),
            group=self.begun.group,
        )
        self._journal.keep(client_key(self.begun.key, name), record)


def _records_of(shards: Iterable[Shard]) -> int:
    return sum(shard.stop - shard.start for shard in shards)


def _pool_of(begun: BegunRecord, kept: PoolRecord | None = None) -> Pool:
    partitions = max(1, begun.spec.partitions)
    done = [Spans.decode(numbers) for numbers in begun.done]
    done += [Spans() for _ in range(partitions - len(done))]
    return Pool(begun.spec, epoch=begun.epoch, done=done, state=kept.pool if kept else None)
