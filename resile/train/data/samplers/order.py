"""The order of an epoch. Pure.

The order is a function and not a list: the index is computed only for the requested positions. So
the first batch of ten million records costs as much as that of a thousand, which matters for a
worker that resumes, and no rank holds the whole order. It depends only on length, seed and epoch,
in integer arithmetic: it is the same in every version of torch and on every machine.

A long epoch is shuffled by a Feistel network over pairs (a, b) with a * b just above its length; a
result beyond the end is passed through again until it falls inside (cycle walking). A short one,
for which such a network has too few keys to be fair, is sorted by a hash.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

__all__ = ["ORDER", "EpochOrder", "epoch_order"]

ORDER = 1
"""Version of the order; incremented when the same seed no longer gives the same order, which
invalidates saved positions."""

SHORT = 1 << 12
"""Up to this length an epoch is sorted by a hash, which is cheap there."""

PASSES = 8
"""Rounds of the Feistel network; four are the minimum for a sound shuffle."""

_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)
"""Odd constants with well spread bits, from splitmix64."""


@dataclass(frozen=True)
class EpochOrder:
    """The order in which an epoch visits its indices."""

    length: int
    seed: int
    epoch: int
    shuffle: bool

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """Return the indices at these positions, all of which must be below the length."""
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
    """Return an order; cached, as the object keeps computed values."""
    return EpochOrder(length, seed, epoch, shuffle)


def _mixed(values: torch.Tensor, key: int) -> torch.Tensor:
    """A non-negative hash of each value; products wrap around like machine integers."""
    mixed = (values ^ key) * _FIRST
    mixed = (mixed ^ ((mixed >> 32) & 0xFFFFFFFF)) * _SECOND
    return (mixed >> 20) & 0xFFFFFFFFFFF
