"""The shards of a dataset and the order in which an epoch takes them. Pure.

A bounded dataset is a sequence of positions, cut into pieces (files, if there are any) and every
piece into shards of one size, the last of a piece being shorter. The order of an epoch is a
permutation of the shards' numbers that is computed and not stored: place by place, from the seed
and the epoch (a Feistel network over the next power of two, applied until the result is in range).
So a billion records need no list, and seed and epoch determine the order.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["Grid", "Permutation", "fair_share"]

ROUNDS = 6
"""Of the network; four suffice for a random-looking order, two more cost a microsecond."""

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
        """``sizes``: how many records each piece has; no shard lies in two pieces."""
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
