"""Base class of readers: records by number, one or a run of neighbours at a time.

A reader is a map-style dataset for a DataLoader and a source for shards. It can be pickled and
forked: it reopens its files in each process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

__all__ = ["Reader"]


class Reader(ABC):
    """Records 0 to ``len(reader) - 1``."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def _records(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the records from ``start`` up to ``stop``; the range is valid."""

    def read(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the records from ``start`` up to, and without, ``stop``; IndexError if the range is
        not valid."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"records {start} to {stop} of {len(self)} in {self!r}")
        return self._records(start, stop)

    def __getitem__(self, index: int) -> Any:
        """Return one record; counted from the end if negative."""
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"record {index} of {len(self)} in {self!r}")
        return next(self._records(at, at + 1))

    def __iter__(self) -> Iterator[Any]:
        """Yield all records."""
        return self._records(0, len(self))
