"""What one rank takes of one epoch: shards are asked for ahead, cut into batches, and handed out.

In lockstep every rank follows the plan (``sharded_plan.py``) and takes exactly its quota; apart, it
takes what it gets until there is no more.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from resile.train.data.sharded_leasers import Leaser, Promise
from resile.train.data.sharded_line import ShardError
from resile.train.data.sharded_plan import Plan, share
from resile.train.data.sharded_sources import Index
from resile.wire.shards import Shard

__all__ = ["Batch", "EpochTake", "first_records"]


@dataclass(frozen=True)
class Batch:
    """Records that one step trains on this rank."""

    indices: tuple[Index, ...]
    counted: int
    """How many of them count: all, or none of a stand-in."""

    total: int | None = None
    """Records that all ranks together train in this step, where that is known."""


class EpochTake:
    """Batches of one epoch for one rank. ``over`` when the last one was made."""

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
        """``plan`` None: apart. ``ahead``: records to ask for at a time. ``mix``: what the order
        of records within a shard is drawn from; None leaves them in order. ``stream``: records
        are pairs of a partition and an offset."""
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
        """Records of all ranks in each step whose batch was not made yet; none where apart."""
        return islice(self._plan.sizes(), self._made, None) if self._plan else iter(())

    def batches(self) -> Iterator[Batch]:
        """The batches that were not made yet."""
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
            # A record of somebody else's, so that this rank can take part in the step.
            return Batch((0,), 0, size)
        indices = self._gather(mine)
        if len(indices) < mine:
            raise ShardError(
                f"rank {self._rank} is owed {mine} records and got {len(indices)}: the ranks do "
                "not take from the same dataset in the same state"
            )
        return Batch(indices, mine, size)

    def _gather(self, count: int) -> tuple[Index, ...]:
        """So many records, or all there are; the next ones are asked for at once."""
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
        """Have one request under way, unless all of this rank's quota is asked for."""
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
    """Take the oldest ``count`` records off ``batches``; a batch that is not used up stays."""
    indices: list[Index] = []
    while batches and len(indices) < count:
        batch = batches.popleft()
        counted = batch.indices[: batch.counted]
        wanted = count - len(indices)
        indices += counted[:wanted]
        if rest := counted[wanted:]:
            batches.appendleft(Batch(rest, len(rest)))
    return Batch(tuple(indices), len(indices))
