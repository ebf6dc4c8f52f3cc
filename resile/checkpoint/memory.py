"""Memory that outlives the process that filled it: memfds, and how they are mapped.

A memfd is a file without a name. It lives as long as somebody holds a descriptor of it or has it
mapped, so nothing can be left behind, however a job ends. It can grow where it is: what lies in it
stays, and old mappings stay valid.

Pages are allocated when the file is made and entered into a process's page table ahead of use
(:func:`populate`): a first write to memory that is not there yet costs several times the copy.
"""

from __future__ import annotations

import ctypes
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
    "map_memory",
    "populate",
    "same_memory",
]

PAGE = mmap.PAGESIZE
MEMORY_NAME = "resile-snapshot"
"""What /proc/PID/fd shows of it."""

_MADV_POPULATE_WRITE = 23
"""Linux 5.14 and later; older ones refuse it, and the first copy pays for its pages."""

_POPULATED_AT_ONCE = 64 << 20
"""The kernel holds the process's memory map for reading meanwhile; others want it too."""


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


def map_memory(descriptor: int, *, writable: bool) -> mmap.mmap:
    """All of it, as it is large now.

    A mapping of Python's keeps a duplicate of its descriptor, and with it any lock: so it gets one
    of its own, and whoever closes the locked one has let go.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    own = same_memory(descriptor)
    try:
        return mmap.mmap(own, os.fstat(own).st_size, access=access)
    finally:
        os.close(own)


def populate(mapping: mmap.mmap) -> bool:
    """Enter a writable mapping's pages into the page table, content untouched; whether the kernel
    could. Other threads run meanwhile. The mapping must not be closed before this returns."""
    try:
        library = ctypes.CDLL(None)
        view = (ctypes.c_char * len(mapping)).from_buffer(mapping)
    except (OSError, ValueError):
        return False
    start = ctypes.addressof(view)
    for begin in range(0, len(mapping), _POPULATED_AT_ONCE):
        length = min(_POPULATED_AT_ONCE, len(mapping) - begin)
        advice = (ctypes.c_void_p(start + begin), ctypes.c_size_t(length), _MADV_POPULATE_WRITE)
        if library.madvise(*advice) != 0:
            return False
    return True
