"""Readers over arrays, sequences and functions of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from resile.train.data.errors import DataMistake
from resile.train.data.readers.base import Reader

__all__ = ["ArrayReader", "CallableReader", "SequenceReader"]


class ArrayReader(Reader):
    """Reads arrays of equal length; a record is one row of each, as a tuple or a mapping.

    ``ArrayReader((images, labels))[3]`` is ``(images[3], labels[3])``; a mapping of arrays gives
    mappings.
    """

    def __init__(self, arrays: Sequence[Any] | Mapping[str, Any]) -> None:
        columns = arrays if isinstance(arrays, Mapping) else dict(enumerate(arrays))
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            found = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise DataMistake(f"arrays must have equal lengths, not ({found or 'no arrays'})")
        self._columns = columns
        self._named = isinstance(arrays, Mapping)
        self._length = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._length

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        for index in range(start, stop):
            record = {name: column[index] for name, column in self._columns.items()}
            yield record if self._named else tuple(record.values())


class SequenceReader(Reader):
    """Reads any object with ``__len__`` and ``__getitem__``."""

    def __init__(self, sequence: Any) -> None:
        self._sequence = sequence

    def __len__(self) -> int:
        return len(self._sequence)

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        for index in range(start, stop):
            yield self._sequence[index]


class CallableReader(Reader):
    """Reads from a function ``(start, stop) -> iterable`` of exactly ``stop - start`` records."""

    def __init__(self, function: Callable[[int, int], Iterable[Any]], *, length: int) -> None:
        if length < 0:
            raise DataMistake(f"length={length} must be at least 0")
        self._function = function
        self._length = length

    def __len__(self) -> int:
        return self._length

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        given = 0
        for record in islice(self._function(start, stop), stop - start + 1):
            given += 1
            if given > stop - start:
                break
            yield record
        if given != stop - start:
            count = "more" if given > stop - start else str(given)
            raise DataMistake(
                f"{self._function!r} was called for records {start} to {stop} and returned {count} "
                f"instead of {stop - start}"
            )
