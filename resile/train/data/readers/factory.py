"""open_dataset: choose the reader for a source."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake
from resile.train.data.readers.base import ChainReader, Reader
from resile.train.data.readers.columnar import ArrowReader, ParquetReader
from resile.train.data.readers.csvfile import CSVReader, EmptyFile
from resile.train.data.readers.files import COMPRESSIONS
from resile.train.data.readers.lines import JSONLinesReader, TextReader
from resile.train.data.readers.memory import ArrayReader, CallableReader, SequenceReader
from resile.train.data.readers.recordio import RecordIOReader

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
"""By file extension; ``.tsv`` is CSV with tabs."""

OF_LINES = (".csv", ".tsv", ".txt", ".text", ".jsonl", ".ndjson")
"""Formats that may be compressed."""

KNOWN = tuple(dict.fromkeys((*OF_LINES, *ENDINGS)))


def open_dataset(source: Any, *, format: str | None = None, **options: Any) -> Reader:
    """Open a reader over a file, files, a folder, arrays, an object or a function.

    - A path (or a pattern with ``*``): the reader for its extension, or for ``format``; a folder
      or several paths: all their files in the order of their names, as one. Files of lines may be
      compressed (``.csv.gz``).
    - A function ``(start, stop) -> iterable``, with ``length=`` its number of records.
    - A mapping, or a tuple, of arrays of one length: a record is a row.
    - Anything with ``__len__`` and ``__getitem__``: its items.

    ``options`` are passed to the reader. Raises :class:`DataMistake` for an unsupported source.
    """
    if isinstance(source, Reader) and not options:
        return source
    if isinstance(source, (str, PathLike)):
        return _open_paths(_found(Path(source)), format, options)
    if isinstance(source, (list, tuple)) and source and _are_paths(source):
        return _open_paths([Path(one) for one in source], format, options)
    return _wrapped(source, options)


def _open_paths(paths: list[Path], format: str | None, options: dict[str, Any]) -> Reader:
    if len(paths) == 1:
        return _open_file(paths[0], format, options)
    readers: list[Reader] = []
    for path in paths:
        with suppress(EmptyFile):
            readers.append(_open_file(path, format, options))
    if not readers:
        raise DataMistake(f"all of these files are empty: {', '.join(map(str, paths))}")
    return readers[0] if len(readers) == 1 else ChainReader(readers)


def _open_file(path: Path, format: str | None, options: dict[str, Any]) -> Reader:
    ending = f".{format.lower()}" if format else _ending(path)
    if path.suffix.lower() in COMPRESSIONS and ending not in OF_LINES:
        raise DataMistake(
            f"unsupported compressed file {path}: decompress it first. Only {', '.join(OF_LINES)} "
            "can be compressed, as in data.csv.gz; set format='csv' (or another) if this is one "
            "of those"
        )
    if ending == ".tsv":
        ending, options = ".csv", {"delimiter": "\t", **options}
    if ending not in ENDINGS:
        raise DataMistake(
            f"unsupported file extension of {path}: supported are {', '.join(KNOWN)} "
            f"({', '.join(COMPRESSIONS)} after the first {len(OF_LINES)}); "
            "set format='csv' (or another) if it is one of those"
        )
    try:
        return ENDINGS[ending](path, **options)
    except TypeError as error:
        raise DataMistake(f"{path}: {error}") from None


def _ending(path: Path) -> str:
    """The extension of the decompressed content."""
    packed = path.suffix.lower() in COMPRESSIONS
    return (path.with_suffix("") if packed else path).suffix.lower()


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
        _ending(Path(one)) in KNOWN for one in source
    )


def _wrapped(source: Any, options: dict[str, Any]) -> Reader:
    sized = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if callable(source) and not sized:
        if set(options) != {"length"}:
            raise DataMistake(
                "a function needs length=, the number of its records, and nothing else"
            )
        return CallableReader(source, length=options["length"])
    if options:
        raise DataMistake(f"{', '.join(options)}: {type(source).__name__} takes no options")
    if isinstance(source, (Mapping, tuple)):
        return ArrayReader(source)
    if sized:
        return SequenceReader(source)
    raise DataMistake(
        f"{type(source).__name__} cannot be read: pass a path, arrays, a function "
        "(start, stop) -> iterable, or an object with __len__ and __getitem__"
    )
