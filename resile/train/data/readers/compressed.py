"""Compressed files of lines, unpacked when they are opened.

A record is read by its place, which a compressed stream does not allow. So the whole file is
unpacked once in each process that opens it, into a file without a name in the temporary folder
($TMPDIR): it goes with the process, however that ends. Forked processes share it, one that gets the
reader pickled unpacks it again.
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
"""By the file's last ending."""


def open_plain(path: Path) -> OpenFile:
    """The file's content, unpacked if its name says that it is compressed."""
    return UnpackedFile(path) if path.suffix.lower() in COMPRESSIONS else OpenFile(path)


class UnpackedFile(OpenFile):
    """The content of a compressed file; ``path`` names the compressed one."""

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
        raise RecordDamaged(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be unpacked into {tempfile.gettempdir()}: "
            f"{error.strerror or error}; $TMPDIR names another folder"
        ) from None
