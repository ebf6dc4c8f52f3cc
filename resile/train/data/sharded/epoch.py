"""A rank's batches of one epoch: shards are requested ahead and cut into batches.

In lockstep every rank follows the plan (``sharded_plan.py``) and takes exactly its quota; with
``Pace.APART`` it takes records until none are left.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from resile.shards.protocol import Shard
from resile.train.data.sharded.lease_sources import Leaser, Promise, ShardError
from resile.train.data.sharded.plan import Plan, share
from resile.train.data.sharded.sources import Index

__all__ = ["Batch", "EpochBatches", "first_records"]


@dataclass(frozen=True)
class Batch:
    """The records that one step trains on this rank."""

    indices: tuple[Index, ...]
    counted: int
    """How many of them count: all, or none for a stand-in."""

    total: int | None = None
    """Number of records of all ranks in this step, where it is known."""


class EpochBatches:
    """Cuts one epoch into batches for one rank. ``over`` once the last one was made."""

    def __init__(
        self,
        leaser: Leaser,
        *,
        rank: int,
        batch_size: int,
        ahead: int,
        plan: Plan | None,
        mix: str | None,
        stream: bool,
    ) -> None:
        """``plan`` None: ``Pace.APART``. ``ahead``: records per request. ``mix``: the seed for
        shuffling records within a shard; None keeps them in order. ``stream``: records are pairs
        of a partition and an offset."""
        self.over = False
        self._batch_size = batch_size
        self._leaser = leaser
        self._rank = rank
        self._ahead = max(ahead, batch_size)
        self._plan = plan
        self._made = 0
        self._sizes = plan.sizes() if plan else None
        self._quota = plan.quota(rank) if plan else None
        self._mix = mix
        self._stream = stream
        self._stock: deque[Index] = deque()
        self._promise: Promise | None = None
        self._dry = False

    def sizes_ahead(self) -> Iterator[int]:
        """Yield the records of all ranks in each step not made yet; empty with ``Pace.APART``."""
        return islice(self._plan.sizes(), self._made, None) if self._plan else iter(())

    def batches(self) -> Iterator[Batch]:
        """Yield the batches that were not made yet."""
        while (batch := self._next()) is not None:
            yield batch
        self.over = True

    def _next(self) -> Batch | None:
        if self._plan is None or self._sizes is None:
            indices = self._gather(self._batch_size)
            return Batch(indices, len(indices)) if indices else None
        size = next(self._sizes, None)
        if size is None:
            return None
        self._made += 1
        mine = share(size, rank=self._rank, world=self._plan.world)
        if not mine:
            # A record of another rank, so that this rank can take part in the step.
            return Batch((0,), 0, size)
        indices = self._gather(mine)
        if len(indices) < mine:
            raise ShardError(
                f"rank {self._rank} got {len(indices)} records instead of {mine}: the ranks do not "
                "use the same dataset in the same state"
            )
        return Batch(indices, mine, size)

    def _gather(self, count: int) -> tuple[Index, ...]:
        """Take ``count`` records, or all that are left; requests the next ones ahead."""
        while len(self._stock) < count and not self._dry:
            self._ask()
            promise, self._promise = self._promise, None
            shards = promise() if promise else []
            self._dry = not shards
            for shard in shards:
                self._stock.extend(self._records_of(shard))
        taken = tuple(self._stock.popleft() for _ in range(min(count, len(self._stock))))
        if len(self._stock) < self._ahead and not self._dry:
            self._ask()
        return taken

    def _ask(self) -> None:
        """Keep one request in flight, unless this rank's whole quota is requested."""
        if self._promise is not None:
            return
        wanted = self._ahead if self._quota is None else min(self._ahead, self._quota)
        if wanted:
            self._promise = self._counted(self._leaser.ask(wanted))

    def _counted(self, promise: Promise) -> Promise:
        def wait() -> list[Shard]:
            shards = promise()
            if self._quota is not None:
                self._quota -= sum(len(shard) for shard in shards)
            return shards

        return wait

    def _records_of(self, shard: Shard) -> list[Index]:
        offsets = list(range(shard.start, shard.stop))
        if self._mix is not None:
            random.Random(f"{self._mix}:{shard.partition}:{shard.start}").shuffle(offsets)
        if self._stream:
            return [(shard.partition, offset) for offset in offsets]
        return list(offsets)


def first_records(batches: deque[Batch], count: int) -> Batch:
    """Remove the oldest ``count`` records from ``batches``; the rest of a batch stays."""
    indices: list[Index] = []
    while batches and len(indices) < count:
        batch = batches.popleft()
        counted = batch.indices[: batch.counted]
        wanted = count - len(indices)
        indices += counted[:wanted]
        if rest := counted[wanted:]:
            batches.appendleft(Batch(rest, len(rest)))
    return Batch(tuple(indices), len(indices))
