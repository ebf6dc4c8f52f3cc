"""Parquet and Arrow files, through pyarrow (``pip install 'resile[parquet]'``).

A Parquet file is decoded a row group at a time, and the last few are cached. Reading in order or by
shards decodes each once; a shuffle over the whole file decodes one for almost every record, unless
``keep`` is at least the number of row groups. An Arrow file is mapped into memory and needs none of
this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake
from resile.train.data.readers.arrowlib import load, problems_named
from resile.train.data.readers.base import Reader
from resile.train.data.readers.recent import Recent

__all__ = ["ArrowReader", "ParquetReader"]

KEEP = 4
"""Number of decoded row groups in the cache. One is often a hundred MB, and larger when decoded."""


class ParquetReader(Reader):
    """Reads a Parquet file. A record is a mapping from column names to values."""

    def __init__(
        self, path: str | Path, *, columns: Sequence[str] | None = None, keep: int = KEEP
    ) -> None:
        self.path = Path(path)
        self._columns = list(columns) if columns is not None else None
        with problems_named(self.path), _parquet().ParquetFile(self.path) as file:
            names = file.schema_arrow.names
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        _check_columns(self.path, self._columns, names)
        self._ends = list(accumulate(groups))
        self._groups = Recent(self._unpacked, capacity=max(keep, 1))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __repr__(self) -> str:
        return f"ParquetReader({str(self.path)!r})"

    def _records(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        group = bisect_right(self._ends, start)
        while start < stop:
            begin = self._ends[group - 1] if group else 0
            until = min(stop, self._ends[group])
            yield from self._groups[group].slice(start - begin, until - start).to_pylist()
            start, group = until, group + 1

    def _unpacked(self, group: int) -> Any:
        # Open the file for each group, and use no threads: this may be a forked process.
        with (
            problems_named(self.path, f"row group {group}"),
            _parquet().ParquetFile(self.path) as file,
        ):
            return file.read_row_group(group, columns=self._columns, use_threads=False)


class ArrowReader(Reader):
    """Reads an Arrow file, Feather version 2, or Arrow stream; records as in
    :class:`ParquetReader`."""

    def __init__(self, path: str | Path, *, columns: Sequence[str] | None = None) -> None:
        self.path = Path(path)
        self._columns = list(columns) if columns is not None else None
        self._table = self._mapped()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"ArrowReader({str(self.path)!r})"

    def __getstate__(self) -> tuple[Path, list[str] | None]:
        return self.path, self._columns

    def __setstate__(self, state: tuple[Path, list[str] | None]) -> None:
        self.path, self._columns = state
        self._table = self._mapped()

    def _records(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        for batch in self._table.slice(start, stop - start).to_batches():
            yield from batch.to_pylist()

    def _mapped(self) -> Any:
        arrow = load("pyarrow", what=str(self.path))
        with problems_named(self.path):
            source = arrow.memory_map(str(self.path))
            try:
                table = arrow.ipc.open_file(source).read_all()
            except arrow.ArrowInvalid:
                source.seek(0)
                table = arrow.ipc.open_stream(source).read_all()
        _check_columns(self.path, self._columns, table.column_names)
        return table if self._columns is None else table.select(self._columns)


def _parquet() -> Any:
    return load("pyarrow.parquet", what="reading Parquet")


def _check_columns(path: Path, wanted: list[str] | None, there: list[str]) -> None:
    for column in wanted or ():
        if column not in there:
            raise DataMistake(f"{path} has no column {column!r}: it has {', '.join(there)}")
