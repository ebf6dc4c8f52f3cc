"""Readers over what a script has in memory or in its own classes and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from resile.train.data.errors import DataMistake
from resile.train.data.readers.base import Reader

__all__ = ["ArrayReader", "CallableReader", "SequenceReader"]


class ArrayReader(Reader):
    """Arrays of equal length; a record is one row of each, in the same shape they were given in.

    ``ArrayReader((images, labels))[3]`` is ``(images[3], labels[3])``; with a mapping it is one.
    """

    def __init__(self, arrays: Sequence[Any] | Mapping[str, Any]) -> None:
        columns = arrays if isinstance(arrays, Mapping) else dict(enumerate(arrays))
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            told = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise DataMistake(f"arrays have to be of one length and are not ({told or 'none'})")
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
    """Any object with ``__len__`` and ``__getitem__``."""

    def __init__(self, sequence: Any) -> None:
        self._sequence = sequence

    def __len__(self) -> int:
        return len(self._sequence)

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        for index in range(start, stop):
            yield self._sequence[index]


class CallableReader(Reader):
    """Any function ``(start, stop) -> iterable`` of exactly so many records."""

    def __init__(self, function: Callable[[int, int], Iterable[Any]], *, length: int) -> None:
        if length < 0:
            raise DataMistake(f"length={length} has to be at least 0")
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
            told = "more" if given > stop - start else str(given)
            raise DataMistake(
                f"{self._function!r} was asked for records {start} to {stop} and gave {told} "
                f"instead of {stop - start}"
            )
