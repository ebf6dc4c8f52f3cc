"""Compressed files of lines, decompressed when they are opened.

Records are read by position, which a compressed stream does not allow. So the whole file is
decompressed once in each process that opens it, into an unnamed file in the temporary folder
($TMPDIR), which disappears with the process, however that ends. Forked processes share it; a
process that unpickles the reader decompresses the file again.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from resile.train.data.errors import DataError, DataMistake, RecordDamaged
from resile.train.data.readers.openfile import OpenFile

__all__ = ["COMPRESSIONS", "UnpackedFile", "open_plain"]

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""By the file's last extension."""


def open_plain(path: Path) -> OpenFile:
    """Open a file, decompressing it if its extension is one of :data:`COMPRESSIONS`."""
    return UnpackedFile(path) if path.suffix.lower() in COMPRESSIONS else OpenFile(path)


class UnpackedFile(OpenFile):
    """The decompressed content of a file; ``path`` is the compressed one."""

    def _opened(self) -> int:
        try:
            packed: BinaryIO = COMPRESSIONS[self.path.suffix.lower()](self.path, "rb")
        except OSError as error:
            raise DataMistake(f"{self.path} cannot be read: {error.strerror}") from None
        with packed, tempfile.TemporaryFile() as plain:
            _unpack(packed, plain, path=self.path)
            return os.dup(plain.fileno())


def _unpack(packed: BinaryIO, plain: BinaryIO, *, path: Path) -> None:
    try:
        shutil.copyfileobj(packed, plain, 1 << 20)
        plain.flush()
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise RecordDamaged(f"{path} cannot be decompressed: {error}") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be decompressed into {tempfile.gettempdir()}: "
            f"{error.strerror or error}; set $TMPDIR to use another folder"
        ) from None
