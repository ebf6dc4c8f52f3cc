"""The interface of a part that can be read, in memory or on storage, for restores and exports."""

from __future__ import annotations

from typing import Protocol

from resile.checkpoint.part import PartHeader, PartLayout

__all__ = ["ReadablePart"]


class ReadablePart(Protocol):
    """A readable part, in memory or on storage."""

    @property
    def header(self) -> PartHeader:
        """The part's header."""

    @property
    def layout(self) -> PartLayout:
        """The positions of its slices."""

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes at these offsets from the start of the part; without a copy if it is in memory."""
