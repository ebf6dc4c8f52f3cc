"""CSV files. A line break between quotes is part of a field and does not end a record: what counts
is whether an even number of quotes came before it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake, RecordDamaged
from resile.train.data.readers.lines import LineReader

__all__ = ["CSVReader"]


class CSVReader(LineReader):
    """A record is a mapping from the header's names to texts, or a list of texts without one.

    ``columns`` keeps only these. Numbers are not guessed: every field is text. A quote is doubled
    inside quotes; ``quote=None`` if quotes are characters like others.
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
            odd = self._quote is not None and line.count(self._quote) % 2
            if begin is None:
                if odd:
                    begin = start
                elif not line.isspace():
                    yield start, start + len(line)
            elif odd:
                yield begin, start + len(line)
                begin = None
        if begin is not None:
            raise RecordDamaged(
                f"{self._file.path}: the quote that opens in the line at byte {begin} never closes"
            )

    def _take_header(self) -> None:
        if not len(self._starts):
            raise RecordDamaged(
                f"{self._file.path} is empty: a header was expected; header=False if it has none"
            )
        self._names = self._fields(self._text(self._raw(0), 0).removeprefix("\ufeff"), 0)
        self._width = len(self._names)
        twice = sorted({name for name in self._names if self._names.count(name) > 1})
        if twice:
            raise RecordDamaged(f"{self._file.path}: the header names {', '.join(twice)} twice")
        del self._starts[0], self._stops[0]

    def _known(self, columns: Sequence[str]) -> list[str]:
        if self._names is None:
            raise DataMistake("columns are chosen by name, which needs header=True")
        for column in columns:
            if column not in self._names:
                raise DataMistake(
                    f"{self._file.path} has no column {column!r}: there are "
                    f"{', '.join(self._names)}"
                )
        return list(columns)

    def _raw(self, index: int) -> bytes:
        return self._file.read(self._starts[index], self._stops[index])

    def _fields(self, text: str, index: int) -> list[str]:
        try:
            (fields,) = csv.reader([text], **self._format)
        except (csv.Error, ValueError) as error:
            raise self._damage(index, f"is not CSV: {error}") from None
        return fields

    def _parsed(self, text: str, index: int) -> list[str] | dict[str, str]:
        fields = self._fields(text, index)
        if self._width is not None and len(fields) != self._width:
            raise self._damage(index, f"has {len(fields)} fields, not {self._width}")
        if self._names is None:
            return fields
        record = dict(zip(self._names, fields, strict=True))
        return record if self._wanted is None else {name: record[name] for name in self._wanted}
