"""How an epoch is cut into global batches, and those into the ranks' shares. Pure.

Positions are those in the epoch's order. Whatever the world size, a global batch is the next
``size`` positions; each rank has one run of them, the first ranks one more where it is uneven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Cut", "share_of", "shares_of"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The global batches of an epoch."""

    length: int
    size: int
    """Of a whole global batch."""

    drop_last: bool
    """Whether an incomplete last global batch is left out."""

    pad: bool
    """Whether it is filled up: positions from ``length`` on stand for the epoch's first ones."""

    def count(self, start: int) -> int:
        """How many positions the global batch has that begins here; 0 at the epoch's end."""
        left = self.length - start
        if left <= 0 or (self.drop_last and left < self.size):
            return 0
        return self.size if self.pad else min(left, self.size)

    def batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The global batches from here to there: where each begins, and how many it has."""
        while start < stop and (count := self.count(start)):
            yield start, count
            start += count

    def end(self, start: int) -> int:
        """Where the epoch ends, seen from here."""
        left = max(self.length - start, 0)
        return start + (left - left % self.size if self.drop_last else left)

    def kinds(self, start: int) -> list[tuple[int, int]]:
        """What is left from here: how many global batches there are of which size."""
        whole, rest = divmod(self.end(start) - start, self.size)
        return [(whole, self.size), (1, self.count(start + whole * self.size))][: 1 + bool(rest)]


def share_of(count: int, world: int, *, rank: int) -> tuple[int, int]:
    """Which of a global batch of ``count`` are this rank's: from, and up to."""
    each, more = divmod(count, world)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


def shares_of(count: int, world: int) -> list[int]:
    """How many of a global batch each rank has."""
    each, more = divmod(count, world)
    return [each + (rank < more) for rank in range(world)]
