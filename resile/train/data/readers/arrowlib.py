"""Optional import of pyarrow, and translation of its errors."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from resile.train.data.errors import DataMistake, ReaderMissing, RecordDamaged

__all__ = ["load", "problems_named"]


def load(module: str, *, what: str) -> Any:
    """Import a module of pyarrow; raises :class:`ReaderMissing` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ReaderMissing(
            f"{what} needs pyarrow, which is not installed: pip install 'resile[parquet]'"
        ) from None


@contextmanager
def problems_named(path: Path, where: str = "") -> Iterator[None]:
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
