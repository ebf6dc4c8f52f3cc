"""A part that can be read, in memory or on storage: what restores and exports are written for."""

from __future__ import annotations

from typing import Protocol

from resile.checkpoint.part import PartHeader, PartLayout

__all__ = ["ReadablePart"]


class ReadablePart(Protocol):
    """A part, wherever it lies."""

    @property
    def header(self) -> PartHeader:
        """What it says of itself."""

    @property
    def layout(self) -> PartLayout:
        """Where its slices lie."""

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes from the part's beginning; without a copy where it is in memory."""
