"""A leased dataset: its pool, its clients, the records of both, and statistics. Pure.

With rounds a shard is done when it is in a snapshot or checkpoint, which the master does not see:
a lease stays until the next round begins the dataset again. Without rounds a client holds its
shards until it reports them as done, returns them, is lost, or lets the lease expire; everything
that was leased and is not held is done, so done records need not be stored.

The records of an epoch are in one of three states, which add up to its length. *Completed* is what
the master can know: in a dataset with rounds, the records that were done in the state that the
round began from, as the master sees snapshots and checkpoints only when they are restored; without
rounds, the records that clients reported. A stream has no end, and so no such counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import msgspec

from resile.job.events import EventKind
from resile.shards.pool import Pool, fair_share
from resile.shards.protocol import DatasetSpec, Pace, Shard
from resile.shards.records import (
    BegunRecord,
    ClientRecord,
    DatasetRecords,
    PoolRecord,
    begun_key,
    client_key,
    pool_key,
)
from resile.shards.spans import Spans


class LeaseEffects(Protocol):
    """Collects records to write and events to publish; the master carries them out."""

    def put(self, key: str, record: msgspec.Struct) -> None:
        """Write a record to the store."""

    def delete(self, key: str) -> None:
        """Delete a record from the store."""

    def record_event(
        self, kind: EventKind, text: str, now: float, *, round: int, group: str = ""
    ) -> None:
        """Publish an event."""


@dataclass
class DatasetClient:
    """A client of a dataset."""

    number: int = 0
    answer: tuple[Shard, ...] = ()
    held: dict[Shard, float] = field(default_factory=dict)
    """Leased and not done, each with the end of its lease. Without rounds only."""


@dataclass
class Traffic:
    """Counters of leased and returned records, over all epochs and rounds of this master."""

    leased: int = 0
    returned: int = 0
    """Not trained, or trained and lost: their client was lost or slow, or returned them."""


class Dataset:
    """A begun dataset. Every change is recorded."""

    def __init__(
        self, begun: BegunRecord, effects: LeaseEffects, *, traffic: Traffic | None = None
    ) -> None:
        """``traffic``: the counters to continue."""
        self.begun = begun
        self.clients: dict[str, DatasetClient] = {}
        self._effects = effects
        self.pool = _pool_of(begun)
        self.open = self.pool.left
        """The number of records that were not done at the beginning; None for a stream."""
        self.traffic = traffic or Traffic()

    @classmethod
    def restore(cls, records: DatasetRecords, effects: LeaseEffects, *, now: float) -> Dataset:
        """Continue from the records of a store; every lease gets its whole time again."""
        restored = cls(records.begun, effects)
        if records.pool is not None:
            restored.pool = _pool_of(records.begun, records.pool)
        until = now + records.begun.spec.patience
        for kept in records.clients:
            held = dict.fromkeys(kept.held, until)
            restored.clients[kept.client] = DatasetClient(kept.number, kept.answer, held)
        return restored

    @property
    def spec(self) -> DatasetSpec:
        """The description of the dataset."""
        return self.begun.spec

    @property
    def held(self) -> int:
        """The number of shards that are leased and not done, without rounds."""
        return sum(len(client.held) for client in self.clients.values())

    @property
    def held_records(self) -> int:
        """The number of records in them."""
        return sum(_records_of(client.held) for client in self.clients.values())

    def held_by_others(self, name: str) -> int:
        """Return how many of these other clients hold."""
        own = self.clients.get(name)
        return self.held - (len(own.held) if own else 0)

    def put(self) -> None:
        """Write the records of a newly begun dataset."""
        self._effects.put(begun_key(self.begun.key), self.begun)
        self._keep_pool()

    def forget_clients(self) -> None:
        """Delete the records of all clients: the dataset is begun again."""
        for client in self.clients:
            self._effects.delete(client_key(self.begun.key, client))

    def begin_again(self, begun: BegunRecord) -> Dataset:
        """Return the dataset as a round begins it again from a restored state."""
        self.forget_clients()
        following = Dataset(begun, self._effects, traffic=self.traffic)
        if begun.spec.sizes == self.spec.sizes:
            # Leased, but not in the state that was restored.
            self.traffic.returned += max(0, self._gone_through() - following._gone_through())
        return following

    def next_epoch(self) -> Dataset:
        """Return the dataset at the start of its next epoch."""
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
        following = Dataset(begun, self._effects, traffic=self.traffic)
        following.clients = {
            name: DatasetClient(number=client.number) for name, client in self.clients.items()
        }
        following.put()
        return following

    def take(self, name: str, number: int, *, records: int, shards: int, now: float) -> list[Shard]:
        """Lease shards, and store them as the answer to this request."""
        client = self.clients.setdefault(name, DatasetClient())
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
        """Take several shards, none larger than the fair share."""
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
        """End leases of done and returned shards; return the first that is not held, if any.

        In that case nothing is changed.
        """
        client = self.clients.setdefault(name, DatasetClient())
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
        """Return the shards of a lost client to the pool; return their number."""
        client = self.clients.pop(name, None)
        if client is None:
            return 0
        self._effects.delete(client_key(self.begun.key, name))
        return self._reclaim(list(client.held))

    def expire(self, now: float) -> int:
        """Return shards with an expired lease to the pool; return their number."""
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
        """The number of records done or leased so far in all epochs; 0 for a stream."""
        total = sum(self.spec.sizes)
        return (self.begun.epoch + 1) * total - (self.pool.left or 0)

    def _keep_pool(self) -> None:
        begun = self.begun
        record = PoolRecord(dataset=begun.dataset, pool=self.pool.state(), group=begun.group)
        self._effects.put(pool_key(begun.key), record)

    def _keep_client(self, name: str, client: DatasetClient) -> None:
        record = ClientRecord(
            dataset=self.begun.dataset,
            client=name,
            number=client.number,
            answer=client.answer,
            held=tuple(client.held),
            group=self.begun.group,
        )
        self._effects.put(client_key(self.begun.key, name), record)


def _records_of(shards: Iterable[Shard]) -> int:
    return sum(shard.stop - shard.start for shard in shards)


def _pool_of(begun: BegunRecord, kept: PoolRecord | None = None) -> Pool:
    partitions = max(1, begun.spec.partitions)
    done = [Spans.decode(numbers) for numbers in begun.done]
    done += [Spans() for _ in range(partitions - len(done))]
    return Pool(begun.spec, epoch=begun.epoch, done=done, state=kept.pool if kept else None)


class RecordState(Enum):
    """The state of a record in an epoch."""

    WAITING = "waiting"
    """Not leased yet."""

    LEASED = "leased"
    """Leased to a client."""

    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True)
class DatasetStatistics:
    """The statistics of one dataset."""

    dataset: str
    epoch: int
    records: dict[RecordState, int]
    traffic: Traffic
    group: str = ""
    """The group of a dataset with rounds; empty for one without."""


def statistics_of(dataset: Dataset) -> DatasetStatistics:
    """Compute the statistics of a dataset."""
    return DatasetStatistics(
        dataset=dataset.begun.dataset,
        epoch=dataset.begun.epoch,
        records=_records(dataset),
        traffic=dataset.traffic,
        group=dataset.begun.group,
    )


def _records(dataset: Dataset) -> dict[RecordState, int]:
    waiting, open_ = dataset.pool.left, dataset.open
    if waiting is None or open_ is None:
        return {}
    leased = open_ - waiting if dataset.begun.round is not None else dataset.held_records
    completed = sum(dataset.spec.sizes) - waiting - leased
    return {
        RecordState.WAITING: waiting,
        RecordState.LEASED: leased,
        RecordState.COMPLETED: completed,
    }
