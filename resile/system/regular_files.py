"""Safe reading of files from untrusted sources: regular files only, and bounded.

Opening a FIFO waits for a writer that may never come, a device can be read without end, and a file
of a terabyte does not fit into memory. Every failure is an ``OSError``, so callers need no handling
beyond that of a missing file.

This module is in the bottom layer: it imports no other module of Resile.
"""

# Opened with os.open: a Path's own methods would wait for the other end of a FIFO.
from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["FileTooLarge", "NotRegularFile", "open_regular_file", "read_end", "read_regular_file"]


class NotRegularFile(OSError):
    """The path is a folder, FIFO, socket or device instead of a regular file."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


class FileTooLarge(OSError):
    """The file is larger than any that Resile writes there."""

    def __init__(self, path: Path, size: int, limit: int) -> None:
        text = f"it has {size} bytes, and at most {limit} are read"
        super().__init__(errno.EFBIG, text, str(path))


def open_regular_file(path: Path) -> int:
    """Open a file for reading; never blocks. Raises OSError, e.g. :class:`NotRegularFile`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a missing device
            raise NotRegularFile(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFile(path)
    return descriptor


def read_regular_file(path: Path, *, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes; raises OSError."""
    with open(open_regular_file(path), "rb") as file:
        data = file.read(limit + 1)
        if len(data) > limit:
            raise FileTooLarge(path, os.fstat(file.fileno()).st_size, limit)
        return data


def read_end(path: Path, *, limit: int) -> bytes:
    """Read the last ``limit`` bytes of a file, or all of a shorter one; raises OSError."""
    with open(open_regular_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - limit))
        return file.read(limit)
