"""A master's shard book with a store, and ranks that lease from it, without processes or clocks.

The store holds the book's records, encoded as in a real one, so that a master may die at any moment
and the next one finds exactly what was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from resile.master.effects import Effects
from resile.shards.leases import LeaseManager, Lessee
from resile.shards.protocol import (
    Begin,
    Begun,
    EpochOver,
    Lease,
    Leased,
    NotYet,
    Shard,
    ToWorker,
)
from resile.shards.records import decode_shards
from resile.train.data.sharded.dataset import Pace, ShardedDataset
from resile.train.data.sharded.lease_sources import EpochRequest, Promise


class Master:
    """A shard book that can die and return; its responses are stored before they are sent."""

    def __init__(self) -> None:
        self.store: dict[str, bytes] = {}
        self.now = 0.0
        self._effects = Effects()
        self.book = LeaseManager(self._effects)

    def dies_and_returns(self) -> None:
        self._effects = Effects()
        self.book = LeaseManager(self._effects, decode_shards(self.store), now=self.now)

    def begin(self, lessee: Lessee, request: Begin) -> ToWorker:
        return self._kept(self.book.begin(lessee, request, now=self.now))

    def lease(self, lessee: Lessee, request: Lease) -> ToWorker:
        return self._kept(self.book.lease(lessee, request, now=self.now))

    def tick(self, now: float) -> None:
        self.now = now
        self.book.tick(now)
        self._kept(None)

    def _kept(self, answer: ToWorker | None) -> ToWorker:
        for key, record in self._effects.take().records.items():
            if record is None:
                self.store.pop(key, None)
            else:
                self.store[key] = msgspec.msgpack.encode(record)
        return answer  # type: ignore[return-value]


@dataclass
class BookLeaser:
    """A rank's leaser that calls a :class:`Master` directly; responses may get lost."""

    master: Master
    rank: int
    round: int
    is_answer_lost: Callable[[], bool] = lambda: False
    number: int = 0
    opening: EpochRequest | None = None

    @property
    def lessee(self) -> Lessee:
        return Lessee(f"rank-{self.rank}", self.round)

    def begin(self, opening: EpochRequest) -> None:
        self.opening = opening
        request = opening.begin_request(rank=self.rank)
        answer = self.master.begin(self.lessee, request)
        assert isinstance(answer, Begun), answer

    def ask(self, records: int) -> Promise:
        assert self.opening is not None
        self.number += 1
        request = self.opening.lease_request(self.number, records=records)
        answer = self.master.lease(self.lessee, request)
        if self.is_answer_lost():
            self.master.dies_and_returns()
            answer = self.master.lease(self.lessee, request)
        while isinstance(answer, NotYet):
            answer = self.master.lease(self.lessee, request)
        assert isinstance(answer, (Leased, EpochOver)), answer
        shards: list[Shard] = list(answer.shards) if isinstance(answer, Leased) else []
        return lambda: shards


@dataclass
class Round:
    """All ranks of one round, stepping together."""

    datasets: list[ShardedDataset]
    batch_size: int
    pace: Pace = Pace.TOGETHER
    iterators: list[object] = field(default_factory=list)

    def step(self) -> list[int] | None:
        """The records that one step of all ranks trains; None at the epoch's end."""
        if not self.iterators:
            self.iterators = [
                iter(d.batches(self.batch_size, pace=self.pace)) for d in self.datasets
            ]
        batches = [next(one, None) for one in self.iterators]  # type: ignore[call-overload]
        if all(batch is None for batch in batches):
            self.iterators = []
            return None
        if self.pace is Pace.TOGETHER:
            assert all(batch is not None for batch in batches), "a rank would wait for ever"
        trained: list[int] = []
        for dataset, batch in zip(self.datasets, batches, strict=True):
            if batch is not None:
                share = dataset.share
                assert share is not None
                trained += batch[:share]
                dataset.advance()
        return trained

    def states(self) -> list[dict[str, object]]:
        return [dataset.state_dict() for dataset in self.datasets]


def new_round(
    master: Master,
    number: int,
    *,
    world: int,
    records: int,
    shard_size: int,
    batch_size: int,
    shuffle: bool,
    states: Sequence[dict[str, object]] = (),
    epochs: int = 1,
    pace: Pace = Pace.TOGETHER,
    is_answer_lost: Callable[[], bool] = lambda: False,
) -> Round:
    """Ranks that restored ``states`` and take from ``master``."""
    datasets = []
    for rank in range(world):
        dataset = ShardedDataset(
            range(records),
            shard_size=shard_size,
            shuffle=shuffle,
            seed=7,
            epochs=epochs,
            rank=rank,
            num_replicas=world,
        )
        dataset.load_rank_states(states)
        dataset._leaser = BookLeaser(master, rank, number, is_answer_lost)
        datasets.append(dataset)
    return Round(datasets, batch_size, pace)
