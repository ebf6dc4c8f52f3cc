"""A file that is read by position, in any process.

Reads pass their offset, so threads and forked processes that share the descriptor do not disturb
each other; a pickled reader reopens the file. A file that was truncated since it was opened raises
an error that names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from resile.train.data.errors import DataMistake, RecordDamaged

__all__ = ["OpenFile"]


class OpenFile:
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
