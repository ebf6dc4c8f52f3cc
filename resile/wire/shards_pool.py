"""The pool of shards that are not leased yet, of one epoch of a dataset. Pure.

A pool starts with what is done and hands out the rest, each record once: the master leases from
one, and without a master every rank computes its own. Its state is a few numbers (the position in
the order, and the cuts that are ready), so that storing it costs little.
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.wire.shards import DatasetSpec, PoolState, Shard
from resile.wire.shards_order import Grid, Permutation
from resile.wire.shards_spans import Spans

__all__ = ["Pool"]

LONGEST_WALK = 20_000
"""Shards examined in one call: after a restore near an epoch's end almost all are done already, and
a master that skipped a million of them at once would block for seconds."""


class Pool:
    """Hands out shards. :attr:`exhausted` tells that there are no more."""

    def __init__(
        self,
        spec: DatasetSpec,
        *,
        epoch: int,
        done: Sequence[Spans],
        state: PoolState | None = None,
    ) -> None:
        self._spec = spec
        self._done = done
        self._spare = list(state.spare) if state else []
        if spec.partitions:
            self._cutter: _Stream | _Epoch = _Stream(spec, done)
        else:
            self._cutter = _Epoch(spec, epoch, done)
        if state:
            self._cutter.cursor = list(state.cursor)
        self.left: int | None = state.left if state else self._cutter.left()
        """Records neither done nor handed out; None for an endless stream."""

    def state(self) -> PoolState:
        """Return the state from which the pool can be restored."""
        return PoolState(
            cursor=tuple(self._cutter.cursor), spare=tuple(self._spare), left=self.left
        )

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to take unless something is put back."""
        return not self._spare and self._cutter.at_end

    def take(self, *, records: int, shards: int) -> list[Shard]:
        """Take at most so many records in at most so many shards; may be fewer, or none for now."""
        taken: list[Shard] = []
        while records > 0 and len(taken) < shards and (self._spare or self._refill()):
            shard = self._spare.pop(0)
            if shard.stop - shard.start > records:
                cut = shard.start + records
                self._spare.insert(0, Shard(shard.partition, cut, shard.stop))
                shard = Shard(shard.partition, shard.start, cut)
            records -= shard.stop - shard.start
            taken.append(shard)
        if self.left is not None:
            self.left -= _size(taken)
        return taken

    def put_back(self, shards: Sequence[Shard]) -> None:
        """Return shards that were not trained; they come next."""
        self._spare[:0] = shards
        if self.left is not None:
            self.left += _size(shards)

    def _refill(self) -> bool:
        """Cut until a shard is ready; False when none was found in this walk."""
        for _ in range(LONGEST_WALK):
            if self._cutter.at_end:
                break
            if cuts := self._cutter.next():
                self._spare += cuts
                return True
        return False


class _Epoch:
    """Cuts a bounded dataset, shard by shard in the epoch's order."""

    def __init__(self, spec: DatasetSpec, epoch: int, done: Sequence[Spans]) -> None:
        self._grid = Grid(spec.sizes, spec.shard_size)
        self._done = done[0]
        count = len(self._grid)
        self._order: Permutation | range = range(count)
        if spec.shuffle:
            self._order = Permutation(count, seed=spec.seed, epoch=epoch)
        self.cursor = [0]

    @property
    def at_end(self) -> bool:
        return self.cursor[0] >= len(self._grid)

    def left(self) -> int:
        return self._grid.total - len(self._done)

    def next(self) -> list[Shard]:
        start, stop = self._grid[self._order[self.cursor[0]]]
        self.cursor[0] += 1
        return [Shard(0, a, b) for a, b in self._done.missing(start, stop)]


class _Stream:
    """Cuts endless partitions, in turn."""

    at_end = False

    def __init__(self, spec: DatasetSpec, done: Sequence[Spans]) -> None:
        self._size = spec.shard_size
        self._done = done
        self.cursor = [0] * (1 + spec.partitions)
        """The next partition, then the next offset of each partition."""

    def left(self) -> None:
        return None

    def next(self) -> list[Shard]:
        partition = self.cursor[0]
        self.cursor[0] = (partition + 1) % (len(self.cursor) - 1)
        start = self._first_missing(partition)
        stop = self._done[partition].missing(start, start + self._size)[0][1]
        self.cursor[1 + partition] = stop
        return [Shard(partition, start, stop)]

    def _first_missing(self, partition: int) -> int:
        offset, done = self.cursor[1 + partition], self._done[partition]
        return done.missing(offset, max(done.end, offset) + 1)[0][0]


def _size(shards: Sequence[Shard]) -> int:
    return sum(shard.stop - shard.start for shard in shards)
