"""open_dataset: the reader for whatever it is given."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake
from resile.train.data.readers.base import Reader
from resile.train.data.readers.chain import ChainReader
from resile.train.data.readers.columnar import ArrowReader, ParquetReader
from resile.train.data.readers.csvfile import CSVReader
from resile.train.data.readers.lines import JSONLinesReader, TextReader
from resile.train.data.readers.recordio import RecordIOReader
from resile.train.data.readers.wrapping import ArrayReader, CallableReader, SequenceReader

__all__ = ["open_dataset"]

ENDINGS: dict[str, Callable[..., Reader]] = {
    ".csv": CSVReader,
    ".txt": TextReader,
    ".text": TextReader,
    ".jsonl": JSONLinesReader,
    ".ndjson": JSONLinesReader,
    ".parquet": ParquetReader,
    ".arrow": ArrowReader,
    ".feather": ArrowReader,
    ".recordio": RecordIOReader,
}
"""By the file's ending; ``.tsv`` is CSV with tabs."""


def open_dataset(source: Any, *, format: str | None = None, **options: Any) -> Reader:
    """A reader over a file, files, a folder, arrays, a class of yours or a function.

    - A path (or a pattern with ``*``): the reader for its ending, or for ``format``; a folder or
      several paths: all their files in the order of their names, as one.
    - A function ``(start, stop) -> iterable``, with ``length=`` its number of records.
    - A mapping, or a tuple, of arrays of one length: a record is a row.
    - Anything with ``__len__`` and ``__getitem__``: its items.

    ``options`` go to the reader. Raises :class:`DataMistake` for what nothing here can read.
    """
    if isinstance(source, Reader) and not options:
        return source
    if isinstance(source, (str, PathLike)):
        return _open_paths(_found(Path(source)), format, options)
    if isinstance(source, (list, tuple)) and source and _are_paths(source):
        return _open_paths([Path(one) for one in source], format, options)
    return _wrapped(source, options)


def _open_paths(paths: list[Path], format: str | None, options: dict[str, Any]) -> Reader:
    readers = [_open_file(path, format, options) for path in paths]
    return readers[0] if len(readers) == 1 else ChainReader(readers)


def _open_file(path: Path, format: str | None, options: dict[str, Any]) -> Reader:
    ending = f".{format.lower()}" if format else path.suffix.lower()
    if ending == ".tsv":
        ending, options = ".csv", {"delimiter": "\t", **options}
    if ending not in ENDINGS:
        raise DataMistake(
            f"nothing here reads {path}: known endings are {', '.join(ENDINGS)}; "
            "say format='csv' (or another) if it is one of those"
        )
    try:
        return ENDINGS[ending](path, **options)
    except TypeError as error:
        raise DataMistake(f"{path}: {error}") from None


def _found(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.is_file() and one.name[0] not in "._")
        if not files:
            raise DataMistake(f"the folder {path} has no files")
        return files
    if not path.exists() and glob.has_magic(str(path)):
        matching = sorted(map(Path, glob.glob(str(path))))  # noqa: PTH207 (it may be absolute)
        if not matching:
            raise DataMistake(f"no file matches {path}")
        return matching
    return [path]


def _are_paths(source: Sequence[Any]) -> bool:
    return all(isinstance(one, (str, PathLike)) for one in source) and all(
        Path(one).suffix.lower() in (*ENDINGS, ".tsv") for one in source
    )


def _wrapped(source: Any, options: dict[str, Any]) -> Reader:
    sized = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if callable(source) and not sized:
        if set(options) != {"length"}:
            raise DataMistake("a function needs length=, the number of its records, and no more")
        return CallableReader(source, length=options["length"])
    if options:
        raise DataMistake(f"{', '.join(options)}: {type(source).__name__} takes no options")
    if isinstance(source, (Mapping, tuple)):
        return ArrayReader(source)
    if sized:
        return SequenceReader(source)
    raise DataMistake(
        f"{type(source).__name__} cannot be read: give a path, arrays, a function "
        "(start, stop) -> iterable, or an object with __len__ and __getitem__"
    )
