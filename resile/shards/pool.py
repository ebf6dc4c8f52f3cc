"""The pool of shards that are not leased yet, of one epoch of a dataset, and their order. Pure.

A bounded dataset is a sequence of positions, cut into pieces (files, if there are any) and every
piece into shards of one size, the last of a piece being shorter. The order of an epoch is a
permutation of the shards' numbers that is computed and not stored: place by place, from the seed
and the epoch (a Feistel network over the next power of two, applied until the result is in range).
So a billion records need no list, and seed and epoch determine the order.

A pool starts with what is done and hands out the rest, each record once: the master leases from
one, and without a master every rank computes its own. Its state is a few numbers (the position in
the order, and the cuts that are ready), so that storing it costs little.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from resile.shards.protocol import DatasetSpec, PoolState, Shard
from resile.shards.spans import Spans

__all__ = [
    "Grid",
    "Permutation",
    "Pool",
    "fair_share",
]


ROUNDS = 6
"""Rounds of the network; four suffice for a random-looking order, two more cost a microsecond."""

MULTIPLIER = 0x9E3779B97F4A7C15
"""The golden ratio in 64 bits: mixes low bits into high ones."""

WORD = (1 << 64) - 1

SMALLEST_FRACTION = 32
"""Near the end shards are cut, but not below this part of a shard: every cut costs a request."""


class Permutation:
    """A pseudo-random permutation of the numbers below ``count``."""

    def __init__(self, count: int, *, seed: int, epoch: int) -> None:
        self._count = count
        bits = max(2, (count - 1).bit_length())
        self._widths = (bits // 2, bits - bits // 2)
        """Bits of the two halves, which are swapped every round."""
        digest = hashlib.blake2b(f"{seed}:{epoch}".encode(), digest_size=8 * ROUNDS).digest()
        self._keys = [int.from_bytes(digest[8 * i : 8 * i + 8], "big") for i in range(ROUNDS)]

    def __getitem__(self, place: int) -> int:
        while True:
            place = self._mixed(place)
            if place < self._count:
                return place

    def _mixed(self, place: int) -> int:
        narrow, wide = self._widths
        left, right = place >> wide, place & (1 << wide) - 1
        for key in self._keys:
            mixed = ((right + 1) * MULTIPLIER + key) & WORD
            mixed = (mixed ^ mixed >> 29) * MULTIPLIER & WORD
            left, right = right, left ^ (mixed >> 33 & (1 << narrow) - 1)
            narrow, wide = wide, narrow
        return left << wide | right


class Grid:
    """The shards of a bounded dataset, by number."""

    def __init__(self, sizes: Sequence[int], shard_size: int) -> None:
        """``sizes``: the number of records in each piece; no shard lies in two pieces."""
        self._size = shard_size
        self._ends = list(accumulate(sizes))
        self._counts = list(accumulate(-(-size // shard_size) for size in sizes))

    @property
    def total(self) -> int:
        """The number of records."""
        return self._ends[-1] if self._ends else 0

    def __len__(self) -> int:
        return self._counts[-1] if self._counts else 0

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Return the positions [start, stop) of a shard."""
        piece = bisect_right(self._counts, number)
        before = self._counts[piece - 1] if piece else 0
        begin = self._ends[piece - 1] if piece else 0
        start = begin + (number - before) * self._size
        return start, min(start + self._size, self._ends[piece])


def fair_share(left: int, *, clients: int, shard_size: int) -> int:
    """Return how many records one lease may take, when clients ask as soon as they are done.

    A whole shard while there is plenty; towards the end half of an even share, so that the last
    leases are small and all clients, slow ones included, are done at about the same time.
    """
    smallest = max(1, shard_size // SMALLEST_FRACTION)
    half = -(-left // (2 * max(1, clients)))
    return min(shard_size, max(smallest, half))


LONGEST_WALK = 20_000
"""Shards examined in one call: after a restore near an epoch's end almost all are done already, and
a master that skipped a million of them at once would block for seconds."""


class Pool:
    """Hands out shards until it is :attr:`exhausted`."""

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
        """Return whether nothing is left to take unless something is put back."""
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
