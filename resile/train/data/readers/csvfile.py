"""Reader for CSV files. A line break between quotes is part of a field and does not end a record.

A quote opens a quoted field only at the field's beginning, as in Python's own csv: elsewhere in a
field it is an ordinary character (5" pipe).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake, RecordDamaged
from resile.train.data.readers.lines import LinesReader

__all__ = ["CSVReader", "EmptyFile"]

BOM = "\ufeff"

PLAIN_QUOTES = "if quotes are plain characters in this file, open it with quote=None"


class EmptyFile(RecordDamaged):
    """The file has no header. Among several files it counts as one without records."""


class CSVReader(LinesReader):
    """Reads a CSV file. A record maps the header's names to texts; without a header it is a list.

    ``columns`` selects columns. Types are not guessed: every field is text. A quote is doubled
    inside quotes; ``quote=None`` if quotes are ordinary characters.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        columns: Sequence[str] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self._quote = quote.encode(encoding) if quote else None
        self._delimiter = delimiter.encode(encoding)
        self._bom = BOM.encode(encoding)
        self._format: dict[str, Any] = {"delimiter": delimiter, "strict": True}
        if quote:
            self._format |= {"quotechar": quote, "doublequote": True}
        else:
            self._format |= {"quoting": csv.QUOTE_NONE}
        super().__init__(path, encoding=encoding)
        self._names: list[str] | None = None
        self._wanted: list[str] | None = None
        self._width: int | None = None
        if header:
            self._take_header()
        elif len(self._starts):
            self._width = len(self._fields(self._text(self._raw(0), 0), 0))
        if columns is not None:
            self._wanted = self._known(columns)

    def _index(self) -> Iterator[tuple[int, int]]:
        begin: int | None = None
        for start, line in self._lines():
            text = line.removeprefix(self._bom) if start == 0 else line
            stays_open = self._ends_in_quotes(text, inside=begin is not None)
            if begin is None:
                if stays_open:
                    begin = start
                elif not line.isspace():
                    yield start, start + len(line)
            elif not stays_open:
                yield begin, start + len(line)
                begin = None
        if begin is not None:
            raise RecordDamaged(
                f"{self._file.path}: the quote that opens in the line at byte {begin} never "
                f"closes; {PLAIN_QUOTES}"
            )

    def _ends_in_quotes(self, line: bytes, *, inside: bool) -> bool:
        """Whether the end of a line is between quotes; ``inside``: whether its beginning is."""
        quote = self._quote
        if quote is None or quote not in line:
            return inside
        size, at = len(quote), 0
        if not inside:
            inside = line.startswith(quote)
            at = size if inside else 0
        while True:
            if inside:
                at = line.find(quote, at)
                if at < 0:
                    return True
                at += size
                if line.startswith(quote, at):  # doubled: one quote, as a character
                    at += size
                    continue
            opens = line.find(self._delimiter + quote, at)
            if opens < 0:
                return False
            inside, at = True, opens + len(self._delimiter) + size

    def _take_header(self) -> None:
        if not len(self._starts):
            raise EmptyFile(
                f"{self._file.path} is empty: a header was expected; header=False if it has none"
            )
        self._names = self._fields(self._text(self._raw(0), 0).removeprefix(BOM), 0)
        self._width = len(self._names)
        twice = sorted({name for name in self._names if self._names.count(name) > 1})
        if twice:
            raise RecordDamaged(f"{self._file.path}: the header names {', '.join(twice)} twice")
        del self._starts[0], self._stops[0]

    def _known(self, columns: Sequence[str]) -> list[str]:
        if self._names is None:
            raise DataMistake("columns= selects columns by name, which needs header=True")
        for column in columns:
            if column not in self._names:
                raise DataMistake(
                    f"{self._file.path} has no column {column!r}: it has {', '.join(self._names)}"
                )
        return list(columns)

    def _raw(self, index: int) -> bytes:
        return self._file.read(self._starts[index], self._stops[index])

    def _fields(self, text: str, index: int) -> list[str]:
        try:
            (fields,) = csv.reader([text], **self._format)
        except (csv.Error, ValueError) as error:
            raise self._damage(index, f"is not CSV: {error}; {self._way_out(error)}") from None
        return fields

    def _way_out(self, error: Exception) -> str:
        if "field limit" in str(error):
            return f"csv.field_size_limit(2**30) allows longer ones, and {PLAIN_QUOTES}"
        return PLAIN_QUOTES

    def _parsed(self, text: str, index: int) -> list[str] | dict[str, str]:
        fields = self._fields(text, index)
        if self._width is not None and len(fields) != self._width:
            raise self._damage(
                index,
                f"has {len(fields)} fields, not {self._width}; set delimiter= (now "
                f"{self._format['delimiter']!r}) or quote= if the file uses others",
            )
        if self._names is None:
            return fields
        record = dict(zip(self._names, fields, strict=True))
        return record if self._wanted is None else {name: record[name] for name in self._wanted}
