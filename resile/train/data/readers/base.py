"""Base class of readers: records by number, one or a run of neighbours at a time; concatenation.

A reader is a map-style dataset for a DataLoader and a source for shards. It can be pickled and
forked: it reopens its files in each process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

__all__ = [
    "ChainReader",
    "Reader",
]


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


class ChainReader(Reader):
    """The records of several readers, numbered consecutively."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = tuple(readers)
        self._ends = list(accumulate(len(reader) for reader in readers))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        at = bisect_right(self._ends, start)
        while start < stop:
            begin = self._ends[at - 1] if at else 0
            until = min(stop, self._ends[at])
            yield from self.readers[at].read(start - begin, until - begin)
            start, at = until, at + 1
