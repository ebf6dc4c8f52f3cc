"""The result of checking a ledger."""

from __future__ import annotations

from enum import Enum

import msgspec

from resile.groupname import MAIN_GROUP
from resile.ledger.lineage import Place

__all__ = ["EpochVerdict", "Extent", "Found", "StreamVerdict", "Verdict"]


class Extent(str, Enum):
    """The extent to which an epoch was trained."""

    COMPLETE = "complete"
    OPEN = "open"
    """The last epoch, incomplete; training may continue, or was meant to end there."""

    SHORT = "short"
    """Something is missing although a later epoch was started."""


class Found(msgspec.Struct, frozen=True):
    """An index, and the places where it was trained."""

    index: int
    places: list[Place]


class EpochVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one epoch of a stream."""

    epoch: int
    length: int
    """The number of indices; for data of unknown length, the extent that was trained."""

    trained: int
    """The number of distinct indices that count."""

    extent: Extent
    missing: int = 0
    gaps: list[tuple[int, int]] = []
    """The first missing indices, as ranges."""

    dropped: int = 0
    """Indices left out on purpose: the last incomplete global batch."""

    repeated: int = 0
    """Indices that count more than once."""

    repeats: list[Found] = []
    outside: int = 0
    """Trained indices that are not in the epoch."""

    strays: list[Found] = []

    @property
    def sound(self) -> bool:
        """Whether each index counts exactly once, as far as the epoch was trained."""
        return not (self.repeated or self.outside or self.extent is Extent.SHORT)


class StreamVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one stream of a group."""

    name: str
    epochs: list[EpochVerdict]
    rounds: int
    steps: int
    """The number of steps that count."""

    lost: int
    """The number of steps that were trained and lost in a crash."""

    faults: list[str]
    """Faults of the record itself, such as steps that were not recorded."""

    group: str = MAIN_GROUP

    @property
    def sound(self) -> bool:
        """Whether there are no faults."""
        return not self.faults and all(epoch.sound for epoch in self.epochs)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a whole ledger."""

    streams: list[StreamVerdict]

    @property
    def sound(self) -> bool:
        """Whether each index of each epoch counts exactly once, as far as epochs were trained."""
        return all(stream.sound for stream in self.streams)
