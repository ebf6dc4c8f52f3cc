"""Record of the indices that a sampler has yielded and no training step has counted yet.

A step may count only what was yielded: the ledger is written from this record, and a position never
moves past it. All iterators of a sampler yield the same indices for the same position, so they
share one record.

Without a ledger only the furthest position is kept. With one the indices themselves are kept, 8
bytes each, until a step counts them or the epoch is over.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

__all__ = ["HandedOut", "Share"]


@dataclass(slots=True)
class Share:
    """One rank's part of the global batch that begins at a position of an epoch."""

    epoch: int
    begin: int
    indices: list[int] | array[int]
    given: int = 0
    """How many of the indices were yielded, from the first on."""

    def give(self, count: int) -> None:
        """Record that the first ``count`` indices were yielded."""
        if count > self.given:
            self.given = count


class HandedOut:
    """The shares of one rank that were begun."""

    def __init__(self, *, keep: bool) -> None:
        """``keep``: keep all shares until they are counted, not only the last of each epoch."""
        self._keep = keep
        self._last: dict[int, Share] = {}
        self._shares: dict[tuple[int, int], Share] = {}
        self.begun = False
        """Whether this process has yielded anything yet."""

    def begin(self, share: Share) -> Share:
        """Record a share that is about to be yielded; returns the record to update."""
        self.begun = True
        last = self._last.get(share.epoch)
        known = last if last and last.begin == share.begin else None
        if known := known or self._shares.get((share.epoch, share.begin)):
            return known
        if last is None or last.begin < share.begin:
            self._last[share.epoch] = share
        if self._keep:
            share.indices = array("q", share.indices)
            self._shares[share.epoch, share.begin] = share
        return share

    def reaches(self, epoch: int, begin: int, *, size: int) -> bool:
        """Return whether the share of ``size`` at ``begin``, and all before, were yielded fully."""
        last = self._last.get(epoch)
        return last is not None and (begin, size) <= (last.begin, last.given)

    def take(self, epoch: int, begin: int) -> list[int]:
        """Remove a share that is counted now; returns its yielded indices."""
        share = self._shares.pop((epoch, begin), None)
        return [] if share is None else list(share.indices[: share.given])

    def forget(self, *, before: int | None = None) -> None:
        """Drop shares that no step will count: epochs ``before`` this one, or all."""
        if before is None:
            self._last.clear()
            self._shares.clear()
            return
        self._last = {epoch: share for epoch, share in self._last.items() if epoch >= before}
        self._shares = {key: share for key, share in self._shares.items() if key[0] >= before}
