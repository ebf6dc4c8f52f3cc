"""A job's position in its data, and the record of yielded indices that no step has counted yet.

The position is one small record that is saved with the model. It counts what the whole job
completed, so it has the same meaning at any world size, and it is the same on all ranks.

A step may count only what was yielded: the ledger is written from the record of yielded shares,
and the position never moves past it. All iterators of a sampler yield the same indices for the
same position, so they share one record. Without a ledger only the furthest position is kept. With
one the indices themselves are kept, 8 bytes each, until a step counts them or the epoch is over.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from resile.decoding import convert
from resile.train.data.errors import PositionMisfit
from resile.train.data.samplers.order import ORDER

__all__ = [
    "Position",
    "Share",
    "YieldedShares",
]


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A position in an epoch of an order."""

    epoch: int = 0
    completed: int = 0
    """Number of samples of this epoch that the whole job has trained."""

    seed: int
    length: int
    shuffle: bool
    order: int = ORDER
    steps: int = 0
    """Total number of training steps on this data."""

    epochs_set: bool = False
    """Whether the script selects epochs with ``set_epoch``."""

    trained_by: str | None = None
    """The round of the last step, in the ledger's form."""

    def saved(self) -> dict[str, object]:
        """Return it as a plain dictionary for the state."""
        return msgspec.structs.asdict(self)

    def restored(self, saved: Mapping[str, object]) -> Position:
        """Return the saved position, if it matches this position's data.

        The seed is the saved one: an epoch continues as it began. Between two epochs the data may
        have changed. Raises :class:`PositionMisfit`.
        """
        try:
            found = convert(dict(saved), Position)
        except (TypeError, ValueError) as error:
            raise PositionMisfit(f"not a valid position in data: {error}") from None
        if found.completed in (0, found.length):
            return msgspec.structs.replace(
                found,
                completed=self.length if found.completed else 0,
                length=self.length,
                shuffle=self.shuffle,
                order=ORDER,
            )
        if found.order != ORDER:
            raise PositionMisfit(
                f"epoch {found.epoch} was begun by another version of Resile, with a different "
                "order of indices; begin a new epoch, or continue with that version"
            )
        for name in ("length", "shuffle"):
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                raise PositionMisfit(
                    f"epoch {found.epoch} was begun with {name}={was} and cannot continue with "
                    f"{name}={now}"
                )
        return found


@dataclass(slots=True)
class Share:
    """A rank's part of the global batch that begins at a position of an epoch."""

    epoch: int
    begin: int
    indices: list[int] | array[int]
    given: int = 0
    """How many of the indices were yielded, from the first on."""

    def give(self, count: int) -> None:
        """Record that the first ``count`` indices were yielded."""
        if count > self.given:
            self.given = count


class YieldedShares:
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
