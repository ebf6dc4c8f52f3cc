"""The order of an epoch. Pure.

The order is a function and not a list: where an index comes is computed for just the positions that
are asked for. So the first batch of ten million records costs what it costs of a thousand, which is
what a worker that resumes is waiting for, and no rank holds the order of all. It depends on length,
seed and epoch alone, in whole numbers: no version of torch and no machine has another.

A long epoch is shuffled by a Feistel network over pairs (a, b) with a * b just above its length;
what falls beyond the end walks on until it falls inside. A short one, for which such a network has
too few keys to be fair, is sorted by a hash.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

__all__ = ["ORDER", "EpochOrder", "epoch_order"]

ORDER = 1
"""Changes when the same seed no longer gives the same order: a position means nothing then."""

SHORT = 1 << 12
"""Up to this length an epoch is sorted by a hash: there it costs nothing."""

PASSES = 8
"""Times that one half of a pair is changed by the other; four are the least for a sound shuffle."""

_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)
"""Odd, with well spread bits: those of splitmix64."""


@dataclass(frozen=True)
class EpochOrder:
    """In which order an epoch visits its indices."""

    length: int
    seed: int
    epoch: int
    shuffle: bool

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """The indices at these positions; each position is below the length."""
        if not self.shuffle or self.length < 2:
            return positions
        if self.length <= SHORT:
            return self._sorted[positions]
        return self._walk(positions)

    @cached_property
    def _keys(self) -> list[int]:
        text = f"{self.seed}/{self.epoch}/{self.length}".encode()
        digest = hashlib.blake2b(text, digest_size=8 * PASSES).digest()
        return [
            int.from_bytes(digest[i : i + 8], "little", signed=True)
            for i in range(0, len(digest), 8)
        ]

    @cached_property
    def _sorted(self) -> torch.Tensor:
        hashes = _mixed(_mixed(torch.arange(self.length), self._keys[0]), self._keys[1])
        return torch.sort(hashes, stable=True).indices

    def _walk(self, positions: torch.Tensor) -> torch.Tensor:
        result = self._pass_through(positions)
        while True:
            outside = (result >= self.length).nonzero().squeeze(1)
            if not len(outside):
                return result
            result[outside] = self._pass_through(result[outside])

    def _pass_through(self, values: torch.Tensor) -> torch.Tensor:
        height = math.isqrt(self.length - 1) + 1
        width = -(-self.length // height)
        upper = torch.div(values, width, rounding_mode="floor")
        lower = values % width
        for key in self._keys[0::2]:
            upper = (upper + _mixed(lower, key)) % height
            lower = (lower + _mixed(upper, key ^ _SECOND)) % width
        return upper * width + lower


@lru_cache(maxsize=4)
def epoch_order(length: int, seed: int, *, epoch: int, shuffle: bool) -> EpochOrder:
    """An order, the same object as the last time: it keeps what it has worked out."""
    return EpochOrder(length, seed, epoch, shuffle)


def _mixed(values: torch.Tensor, key: int) -> torch.Tensor:
    """A hash of each value, not negative; products wrap around as they do in the machine."""
    mixed = (values ^ key) * _FIRST
    mixed = (mixed ^ ((mixed >> 32) & 0xFFFFFFFF)) * _SECOND
    return (mixed >> 20) & 0xFFFFFFFFFFF
