"""Files read by position in any process, decompressed if needed, with a cache of decoded pieces.

Reads pass their offset, so threads and forked processes that share the descriptor do not disturb
each other; a pickled reader reopens the file. A file that was truncated since it was opened raises
an error that names it.

Records are read by position, which a compressed stream does not allow. So a compressed file is
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
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from resile.train.data.errors import DataError, DataMistake, RecordDamaged

__all__ = [
    "COMPRESSIONS",
    "DecodedCache",
    "LocalFile",
    "UnpackedFile",
    "open_plain",
]


class LocalFile:
    """A local file, open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._opened()
        self.size = os.fstat(self._descriptor).st_size

    def lines(self) -> Iterator[bytes]:
        """Yield all lines, with their line breaks."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            yield from file

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` up to ``stop``; raises :class:`RecordDamaged` if the file
        is too short."""
        pieces: list[bytes] = []
        while start < stop:
            piece = os.pread(self._descriptor, stop - start, start)
            if not piece:
                raise RecordDamaged(f"{self.path} ends at byte {start}, before byte {stop}")
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __getstate__(self) -> tuple[Path, int]:
        return self.path, self.size

    def __setstate__(self, state: tuple[Path, int]) -> None:
        self.path, self.size = state
        self._descriptor = self._opened()

    def _opened(self) -> int:
        """Open the content; returns a file descriptor."""
        try:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DataMistake(f"{self.path} cannot be read: {error.strerror}") from None

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""By the file's last extension."""


def open_plain(path: Path) -> LocalFile:
    """Open a file, decompressing it if its extension is one of :data:`COMPRESSIONS`."""
    return UnpackedFile(path) if path.suffix.lower() in COMPRESSIONS else LocalFile(path)


class UnpackedFile(LocalFile):
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


T = TypeVar("T")


class DecodedCache(Generic[T]):
    """LRU cache of ``capacity`` pieces; a pickled copy starts empty."""

    def __init__(self, make: Callable[[int], T], *, capacity: int) -> None:
        self.__setstate__((make, capacity))

    def __getitem__(self, number: int) -> T:
        """Return a piece, decoding it if it is not cached."""
        return self._kept(number)

    def __getstate__(self) -> tuple[Callable[[int], T], int]:
        return self._make, self._capacity

    def __setstate__(self, state: tuple[Callable[[int], T], int]) -> None:
        self._make, self._capacity = state
        self._kept = lru_cache(maxsize=self._capacity)(self._make)
