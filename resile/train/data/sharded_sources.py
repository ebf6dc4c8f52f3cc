"""What a sharded dataset reads from, whatever it is, behind one question: these records, please.

A source is one of

- an object with ``__len__`` and ``__getitem__`` (every reader of ours, any map-style dataset, a
  list of indices, an array), asked one record at a time or, if it has ``read(start, stop)``, a run
  of neighbours at a time;
- a callable ``(start, stop) -> iterable`` with its length given;
- a list of objects with ``__len__`` and ``read`` (files): records are counted through, and no
  shard lies in two of them;
- a *stream*: an object with ``partitions`` (how many) and ``read(partition, start, stop)``, without
  an end: it gives all records of the range and waits for those that have not come yet.

All of it may run in a DataLoader's worker processes: nothing here knows of leases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any, Protocol, TypeAlias

from resile.train.data.errors import DataMistake
from resile.wire.shards_spans import runs

__all__ = ["Index", "Source", "open_source"]

Index: TypeAlias = int | tuple[int, int]
"""A record: its number, or its partition and offset in a stream."""


class Source(Protocol):
    """Anything that can be read by record."""

    sizes: tuple[int, ...]
    """Records in each piece; empty for a stream."""

    partitions: int
    """Of a stream; 0 for what has an end."""

    def fetch(self, indices: Sequence[Index]) -> list[Any]:
        """The records behind ``indices``, in their order."""


def open_source(source: Any, *, length: int | None = None) -> Source:
    """``source`` behind one interface; raises :class:`DataMistake` for what cannot be read."""
    partitions = getattr(source, "partitions", None)
    if partitions is not None:
        return _Stream(source, int(partitions() if callable(partitions) else partitions))
    if isinstance(source, (list, tuple)) and source and all(_is_piece(one) for one in source):
        return _Pieces([_piece(one) for one in source])
    return _Pieces([_piece(source, length=length)])


def _is_piece(candidate: Any) -> bool:
    """Whether an element of a list is something to read from, and not a record itself."""
    return not isinstance(candidate, (str, bytes, tuple, list, dict)) and (
        hasattr(candidate, "read") and hasattr(candidate, "__len__")
    )


Read: TypeAlias = Callable[[int, int], Iterable[Any]]


class _Piece:
    """One thing with a length that is read by runs or by record."""

    def __init__(self, length: int, read: Read | None, get: Callable[[int], Any] | None) -> None:
        self.length = length
        self._read = read
        self._get = get

    def run(self, start: int, stop: int) -> list[Any]:
        if self._get is not None and (self._read is None or stop - start == 1):
            return [self._get(index) for index in range(start, stop)]
        assert self._read is not None
        records = list(self._read(start, stop))
        if len(records) != stop - start:
            raise DataMistake(
                f"the source gave {len(records)} records for [{start}, {stop}), not {stop - start}"
            )
        return records


def _piece(source: Any, *, length: int | None = None) -> _Piece:
    read = getattr(source, "read", None)
    get = source.__getitem__ if hasattr(source, "__getitem__") else None
    if read is None and get is None:
        if not callable(source):
            raise DataMistake(
                f"a {type(source).__name__} cannot be read: give an object with __len__ and "
                "__getitem__ or read(start, stop), or a callable (start, stop) with length="
            )
        read = source
    if length is None:
        if not hasattr(source, "__len__"):
            raise DataMistake("length= is needed: this source does not say how many records it has")
        length = len(source)
    return _Piece(length, read, get)


class _Pieces:
    """Bounded pieces, counted through."""

    partitions = 0

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = pieces
        self.sizes = tuple(piece.length for piece in pieces)
        self._ends = list(accumulate(self.sizes))

    def fetch(self, indices: Sequence[Index]) -> list[Any]:
        records: list[Any] = []
        for start, stop in runs(_numbers(indices)):
            while start < stop:
                number = bisect_right(self._ends, start)
                begin = self._ends[number] - self.sizes[number]
                end = min(stop, self._ends[number])
                records += self._pieces[number].run(start - begin, end - begin)
                start = end
        return records


class _Stream:
    """Partitions without an end."""

    sizes: tuple[int, ...] = ()

    def __init__(self, source: Any, partitions: int) -> None:
        if partitions < 1 or not hasattr(source, "read"):
            raise DataMistake(
                "a stream has at least one of its partitions and read(partition, start, stop)"
            )
        self._source = source
        self.partitions = partitions

    def fetch(self, indices: Sequence[Index]) -> list[Any]:
        records: list[Any] = []
        for partition, group in groupby(_pairs(indices), key=lambda pair: pair[0]):
            for start, stop in runs(offset for _, offset in group):
                records += self._run(partition, start, stop)
        return records

    def _run(self, partition: int, start: int, stop: int) -> list[Any]:
        records = list(self._source.read(partition, start, stop))
        if len(records) != stop - start:
            raise DataMistake(
                f"the stream gave {len(records)} records for [{start}, {stop}) of partition "
                f"{partition}, not {stop - start}: read() has to wait until all of them are there"
            )
        return records


def _numbers(indices: Sequence[Index]) -> list[int]:
    return [index for index in indices if isinstance(index, int)]


def _pairs(indices: Sequence[Index]) -> list[tuple[int, int]]:
    return [index for index in indices if not isinstance(index, int)]
