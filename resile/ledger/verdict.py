"""What the check of a ledger comes to."""

from __future__ import annotations

from enum import Enum

import msgspec

from resile.groupname import MAIN_GROUP
from resile.ledger.lineage import Place

__all__ = ["EpochVerdict", "Extent", "Found", "StreamVerdict", "Verdict"]


class Extent(str, Enum):
    """How much of an epoch was trained."""

    COMPLETE = "complete"
    OPEN = "open"
    """The last one; training may go on, or was meant to end there."""

    SHORT = "short"
    """Something is missing although a later epoch was begun, or although it was asked for."""


class Found(msgspec.Struct, frozen=True):
    """An index, and where it was trained."""

    index: int
    places: list[Place]


class EpochVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch of one stream."""

    epoch: int
    length: int
    """How many indices it has; of data without an end, how far it was trained."""

    trained: int
    """Different indices that count."""

    extent: Extent
    missing: int = 0
    gaps: list[tuple[int, int]] = []
    """The missing ones as ranges, as far as they are listed."""

    dropped: int = 0
    """Left out on purpose: the last incomplete global batch."""

    repeated: int = 0
    """Indices that count more than once."""

    repeats: list[Found] = []
    outside: int = 0
    """Indices that the epoch does not have."""

    strays: list[Found] = []

    @property
    def sound(self) -> bool:
        """Whether each index counts exactly once, or will."""
        return not (self.repeated or self.outside or self.extent is Extent.SHORT)


class StreamVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of data of one group."""

    name: str
    epochs: list[EpochVerdict]
    rounds: int
    steps: int
    """That count."""

    lost: int
    """Steps that were trained and lost by a crash."""

    faults: list[str]
    """What is wrong with the record itself: steps that somebody did not write down."""

    group: str = MAIN_GROUP

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults and all(epoch.sound for epoch in self.epochs)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole ledger."""

    streams: list[StreamVerdict]

    @property
    def sound(self) -> bool:
        """Whether each index of each epoch was trained exactly once, as far as they were."""
        return all(stream.sound for stream in self.streams)
