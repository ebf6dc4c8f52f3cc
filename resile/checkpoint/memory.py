"""Memory that outlives the process that filled it: memfds. How they are mapped: ``mapping``.

A memfd is a file without a name. It lives as long as somebody holds a descriptor of it or has it
mapped, so nothing can be left behind, however a job ends. It can grow where it is: what lies in it
stays, and old mappings stay valid.

Pages are allocated when the file is made: a first write to memory that is not there yet costs
several times the copy.
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
"""What /proc/PID/fd shows of it."""


def create() -> int:
    """A descriptor of empty memory; raises :class:`NoRoom` where there is no such thing."""
    if not hasattr(os, "memfd_create"):
        raise NoRoom("snapshots in memory need Linux; this system has no memory files")
    try:
        return os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
    except OSError as error:
        raise NoRoom(f"a snapshot's memory cannot be made: {error.strerror}") from None


def grow(descriptor: int, size: int) -> None:
    """Give it at least ``size`` bytes, all of them allocated now; raises :class:`NoRoom`."""
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
    """Make it at least ``size`` bytes long. Pages come with the first write to them, which saves
    clearing them for who writes all of them anyway, and does not map them."""
    if size > os.fstat(descriptor).st_size:
        os.truncate(descriptor, size)


def same_memory(descriptor: int) -> int:
    """A second, independent descriptor of the same memory: locks on it are its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
