"""Division of an epoch into global batches, and of those into the ranks' shares. Pure.

Positions are those in the epoch's order. At any world size a global batch is the next ``size``
positions; each rank has one run of them, the first ranks one more where it is uneven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["GlobalBatches", "share_of", "shares_of"]


@dataclass(frozen=True, kw_only=True)
class GlobalBatches:
    """The global batches of an epoch."""

    length: int
    size: int
    """Size of a full global batch."""

    drop_last: bool
    """Whether an incomplete last global batch is dropped."""

    pad: bool
    """Whether it is filled up: positions from ``length`` on wrap around to the epoch's first."""

    def count(self, start: int) -> int:
        """Return the size of the global batch that begins at ``start``; 0 at the epoch's end."""
        left = self.length - start
        if left <= 0 or (self.drop_last and left < self.size):
            return 0
        return self.size if self.pad else min(left, self.size)

    def batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the start and size of each global batch between ``start`` and ``stop``."""
        while start < stop and (count := self.count(start)):
            yield start, count
            start += count

    def end(self, start: int) -> int:
        """Return the position where the epoch ends, counted from ``start``."""
        left = max(self.length - start, 0)
        return start + (left - left % self.size if self.drop_last else left)

    def kinds(self, start: int) -> list[tuple[int, int]]:
        """Return the number of remaining global batches of each size."""
        whole, rest = divmod(self.end(start) - start, self.size)
        return [(whole, self.size), (1, self.count(start + whole * self.size))][: 1 + bool(rest)]


def share_of(count: int, world: int, *, rank: int) -> tuple[int, int]:
    """Return this rank's range in a global batch of ``count``: start and stop."""
    each, more = divmod(count, world)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


def shares_of(count: int, world: int) -> list[int]:
    """Return the size of each rank's share of a global batch."""
    each, more = divmod(count, world)
    return [each + (rank < more) for rank in range(world)]
