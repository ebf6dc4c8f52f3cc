"""Parquet and Arrow files, through pyarrow (``pip install 'resile[parquet]'``).

A Parquet file is decoded a row group at a time, and the last few are cached. Reading in order or by
shards decodes each once; a shuffle over the whole file decodes one for almost every record, unless
``keep`` is at least the number of row groups. An Arrow file is mapped into memory and needs none of
this.
"""

from __future__ import annotations

import importlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake, ReaderMissing, RecordDamaged
from resile.train.data.readers.base import Reader
from resile.train.data.readers.files import DecodedCache

__all__ = [
    "ArrowReader",
    "ParquetReader",
    "load",
    "pyarrow_errors",
]


def load(module: str, *, what: str) -> Any:
    """Import a module of pyarrow; raises :class:`ReaderMissing` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ReaderMissing(
            f"{what} needs pyarrow, which is not installed: pip install 'resile[parquet]'"
        ) from None


@contextmanager
def pyarrow_errors(path: Path, where: str = "") -> Iterator[None]:
    """Translate pyarrow's errors into ours, with the file and the position."""
    arrow = load("pyarrow", what=str(path))
    try:
        yield
    except arrow.ArrowException as error:
        place = f"{path}, {where}," if where else str(path)
        raise RecordDamaged(f"{place} cannot be read: {_first_line(error)}") from None
    except OSError as error:
        if error.errno is None:  # how pyarrow reports invalid content
            raise RecordDamaged(f"{path} cannot be read: {_first_line(error)}") from None
        raise DataMistake(f"{path} cannot be read: {os.strerror(error.errno)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


KEEP = 4
"""Number of decoded row groups in the cache. One is often a hundred MB, and larger when decoded."""


class ParquetReader(Reader):
    """Reads a Parquet file. A record is a mapping from column names to values."""

    def __init__(
        self, path: str | Path, *, columns: Sequence[str] | None = None, keep: int = KEEP
    ) -> None:
        self.path = Path(path)
        self._columns = list(columns) if columns is not None else None
        with pyarrow_errors(self.path), _parquet().ParquetFile(self.path) as file:
            names = file.schema_arrow.names
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        _check_columns(self.path, self._columns, names)
        self._ends = list(accumulate(groups))
        self._groups = DecodedCache(self._unpacked, capacity=max(keep, 1))

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
            pyarrow_errors(self.path, f"row group {group}"),
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
        with pyarrow_errors(self.path):
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
