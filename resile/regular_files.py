"""Reading of files that somebody else could have put there: regular ones only, and bounded.

To open a FIFO waits for a writer that may never come, a device can be read without end, and a file
of a terabyte does not fit into memory. What cannot be read is always an ``OSError``, so callers
need no handling beyond that of a missing file.

This module lies below all others, imports none of them, and may be imported by each.
"""

# Opened by number: a Path's own methods would wait for the other end of a FIFO.
from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["FileTooLarge", "NotRegularFile", "open_regular_file", "read_end", "read_regular_file"]


class NotRegularFile(OSError):
    """A folder, FIFO, socket or device lies where a regular file should."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


class FileTooLarge(OSError):
    """The file has more bytes than any that Resile writes there."""

    def __init__(self, path: Path, size: int, limit: int) -> None:
        text = f"it has {size} bytes, and at most {limit} are read"
        super().__init__(errno.EFBIG, text, str(path))


def open_regular_file(path: Path) -> int:
    """A descriptor for reading; never waits. Raises OSError, :class:`NotRegularFile` among them."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise NotRegularFile(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFile(path)
    return descriptor


def read_regular_file(path: Path, *, limit: int) -> bytes:
    """All bytes of a file that has at most ``limit``; raises OSError."""
    with open(open_regular_file(path), "rb") as file:
        data = file.read(limit + 1)
        if len(data) > limit:
            raise FileTooLarge(path, os.fstat(file.fileno()).st_size, limit)
        return data


def read_end(path: Path, *, limit: int) -> bytes:
    """The last ``limit`` bytes of a file, or all of a shorter one; raises OSError."""
    with open(open_regular_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - limit))
        return file.read(limit)
