"""Concatenation of several readers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from resile.train.data.readers.base import Reader

__all__ = ["ChainReader"]


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
