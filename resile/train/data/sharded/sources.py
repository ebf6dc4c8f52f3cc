"""The sources of a sharded dataset behind one interface: fetch records by index.

A source is one of

- an object with ``__len__`` and ``__getitem__`` (every Resile reader, any map-style dataset, a list
  of indices, an array), read one record at a time or, if it has ``read(start, stop)``, a run of
  neighbours at a time;
- a callable ``(start, stop) -> iterable`` with its length given; - a list of objects with
``__len__`` and ``read`` (files): records are numbered consecutively, and no
  shard spans two of them;
- a *stream*: an object with ``partitions`` (how many) and ``read(partition, start, stop)``, without
  an end: it returns all records of the range and waits for those that have not arrived yet.

All of it may run in a DataLoader's worker processes: this module does not know about leases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any, Protocol, TypeAlias

from resile.shards.spans import runs
from resile.train.data.errors import DataMistake

__all__ = ["Index", "RecordSource", "open_source"]

Index: TypeAlias = int | tuple[int, int]
"""A record: its number, or its partition and offset in a stream."""


class RecordSource(Protocol):
    """A source of records by index."""

    sizes: tuple[int, ...]
    """Records in each piece; empty for a stream."""

    partitions: int
    """Number of partitions of a stream; 0 for other sources."""

    def fetch(self, indices: Sequence[Index]) -> list[Any]:
        """Return the records of ``indices``, in their order."""


def open_source(source: Any, *, length: int | None = None) -> RecordSource:
    """Wrap ``source``; raises :class:`DataMistake` if it cannot be read."""
    partitions = getattr(source, "partitions", None)
    if partitions is not None:
        return _Stream(source, int(partitions() if callable(partitions) else partitions))
    if isinstance(source, (list, tuple)) and source and all(_is_piece(one) for one in source):
        return _Pieces([_piece(one) for one in source])
    return _Pieces([_piece(source, length=length)])


def _is_piece(candidate: Any) -> bool:
    """Whether an element of a list is a source itself, and not a record."""
    return not isinstance(candidate, (str, bytes, tuple, list, dict)) and (
        hasattr(candidate, "read") and hasattr(candidate, "__len__")
    )


Read: TypeAlias = Callable[[int, int], Iterable[Any]]


class _Piece:
    """A source with a length, read by runs or by record."""

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
                f"the source returned {len(records)} records for [{start}, {stop}), "
                f"not {stop - start}"
            )
        return records


def _piece(source: Any, *, length: int | None = None) -> _Piece:
    read = getattr(source, "read", None)
    get = source.__getitem__ if hasattr(source, "__getitem__") else None
    if read is None and get is None:
        if not callable(source):
            raise DataMistake(
                f"a {type(source).__name__} cannot be read: pass an object with __len__ and "
                "__getitem__ or read(start, stop), or a callable (start, stop) with length="
            )
        read = source
    if length is None:
        if not hasattr(source, "__len__"):
            raise DataMistake("length= is required: this source has no __len__")
        length = len(source)
    return _Piece(length, read, get)


class _Pieces:
    """Bounded pieces, numbered consecutively."""

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
                "a stream needs at least one partition and a method read(partition, start, stop)"
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
                f"the stream returned {len(records)} records for [{start}, {stop}) of partition "
                f"{partition}, not {stop - start}: read() must wait until all of them are there"
            )
        return records


def _numbers(indices: Sequence[Index]) -> list[int]:
    return [index for index in indices if isinstance(index, int)]


def _pairs(indices: Sequence[Index]) -> list[tuple[int, int]]:
    return [index for index in indices if not isinstance(index, int)]
