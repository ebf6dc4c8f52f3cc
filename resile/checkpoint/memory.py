"""Memory that outlives the process that filled it: memfds.

A memfd is a file without a name. It lives as long as some process has it open or mapped, so nothing
is left behind, however a job ends. It can grow in place: its content stays, and old mappings stay
valid.

Pages are allocated in advance: the first write to a page that is not allocated costs several times
the copy.
"""

from __future__ import annotations

import errno
import mmap
import os

from resile.checkpoint.errors import NoRoom

__all__ = [
    "MEMORY_NAME",
    "PAGE",
    "create",
    "extend",
    "grow",
    "same_memory",
]

PAGE = mmap.PAGESIZE
MEMORY_NAME = "resile-snapshot"
"""The name shown in /proc/PID/fd."""


def create() -> int:
    """Create an empty memory file; raises :class:`NoRoom` on systems without memfds."""
    if not hasattr(os, "memfd_create"):
        raise NoRoom("snapshots in memory need Linux; this system has no memory files")
    try:
        return os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
    except OSError as error:
        raise NoRoom(f"cannot create memory for a snapshot: {error.strerror}") from None


def grow(descriptor: int, size: int) -> None:
    """Grow a memory file to at least ``size`` bytes, all allocated; raises :class:`NoRoom`."""
    before = os.fstat(descriptor).st_size
    if size <= before:
        return
    try:
        os.posix_fallocate(descriptor, before, size - before)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        os.truncate(descriptor, before)
        raise NoRoom(f"the system has no {size - before} bytes left for a snapshot") from None


def extend(descriptor: int, size: int) -> None:
    """Grow a memory file to at least ``size`` bytes without allocating them. Pages are allocated by
    the first write, which saves clearing pages that are overwritten anyway."""
    if size > os.fstat(descriptor).st_size:
        os.truncate(descriptor, size)


def same_memory(descriptor: int) -> int:
    """Open a second, independent descriptor of the same memory: its locks are its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
