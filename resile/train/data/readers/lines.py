"""Readers for files with one record per line: text and JSON lines; the base of the CSV reader.

The start of each record is found once, when the file is opened; then any record costs one read.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resile.decoding import DecodeError, decode_json
from resile.train.data.errors import RecordDamaged
from resile.train.data.readers.base import Reader
from resile.train.data.readers.files import open_plain

__all__ = ["JSONLinesReader", "LinesReader", "TextReader"]

RUN = 1 << 20
"""Approximate number of bytes of neighbouring records that are read at once."""


class LinesReader(Reader):
    """Base class for records that consist of whole lines."""

    def __init__(self, path: str | Path, *, encoding: str) -> None:
        self._file = open_plain(Path(path))
        self._encoding = encoding
        self._starts, self._stops = array("q"), array("q")
        for start, stop in self._index():
            self._starts.append(start)
            self._stops.append(stop)

    @abstractmethod
    def _index(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each record, including its line break."""

    @abstractmethod
    def _parsed(self, text: str, index: int) -> Any:
        """Parse a record from its text without the line break."""

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._file.path)!r})"

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield every line of the file with its start."""
        start = 0
        for line in self._file.lines():
            yield start, line
            start += len(line)

    def _records(self, start: int, stop: int) -> Iterator[Any]:
        while start < stop:
            begin = self._starts[start]
            until = start + 1
            while until < stop and self._stops[until] - begin <= RUN:
                until += 1
            data = self._file.read(begin, self._stops[until - 1])
            for index in range(start, until):
                yield self._parsed(
                    self._text(
                        data[self._starts[index] - begin : self._stops[index] - begin], index
                    ),
                    index,
                )
            start = until

    def _text(self, data: bytes, index: int) -> str:
        try:
            text = data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise self._damage(
                index, f"is not {self._encoding}: {error.reason} at its byte {error.start}"
            ) from None
        return text.removesuffix("\n").removesuffix("\r")

    def _damage(self, index: int, what: str) -> RecordDamaged:
        return RecordDamaged(
            f"{self._file.path}, record {index} at byte {self._starts[index]}, {what}"
        )


class TextReader(LinesReader):
    """Reads text. A record is a line without its line break, also an empty one."""

    def __init__(self, path: str | Path, *, encoding: str = "utf-8") -> None:
        super().__init__(path, encoding=encoding)

    def _index(self) -> Iterator[tuple[int, int]]:
        for start, line in self._lines():
            yield start, start + len(line)

    def _parsed(self, text: str, index: int) -> str:  # noqa: ARG002
        return text


class JSONLinesReader(LinesReader):
    """Reads JSON lines. A record is a line's JSON value; empty lines are skipped."""

    def __init__(self, path: str | Path, *, encoding: str = "utf-8") -> None:
        super().__init__(path, encoding=encoding)

    def _index(self) -> Iterator[tuple[int, int]]:
        for start, line in self._lines():
            if not line.isspace():
                yield start, start + len(line)

    def _parsed(self, text: str, index: int) -> Any:
        try:
            return decode_json(text, object)
        except DecodeError as error:
            raise self._damage(index, f"is not JSON: {error}") from None
