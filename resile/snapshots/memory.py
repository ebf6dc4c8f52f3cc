"""Memory that outlives the process that filled it: memfds, and how they are mapped.

A memfd is a file without a name. It lives as long as some process has it open or mapped, so nothing
is left behind, however a job ends. It can grow in place: its content stays, and old mappings stay
valid. Pages are allocated in advance: the first write to a page that is not allocated costs several
times the copy.

Entering a small page into a page table costs about as much as copying its bytes, and a process that
restores a snapshot maps it for the first time. So mappings are aligned to large pages, and
:func:`collapse_pages` asks the kernel to collapse a file's small pages into large ones: then
mapping costs next to nothing. This is optional. Where it is not possible (kernels before 6.1,
fragmented memory) everything else works the same, and :meth:`Mapping.populate` enters small pages
ahead of use.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import weakref

from resile.checkpoint.errors import NoMemoryForSnapshot

__all__ = [
    "MEMORY_NAME",
    "Mapping",
    "PAGE",
    "collapse_pages",
    "create",
    "extend",
    "grow",
    "map_memory",
    "reopen",
]


PAGE = mmap.PAGESIZE
MEMORY_NAME = "resile-snapshot"
"""The name shown in /proc/PID/fd."""


def create() -> int:
    """Create an empty memory file; raises :class:`NoMemoryForSnapshot` if there are no memfds."""
    if not hasattr(os, "memfd_create"):
        raise NoMemoryForSnapshot("snapshots in memory need Linux; this system has no memory files")
    try:
        return os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
    except OSError as error:
        raise NoMemoryForSnapshot(
            f"cannot create memory for a snapshot: {error.strerror}"
        ) from None


def grow(descriptor: int, size: int) -> None:
    """Grow a memory file to at least ``size`` bytes, all allocated.

    Raises :class:`NoMemoryForSnapshot`.
    """
    before = os.fstat(descriptor).st_size
    if size <= before:
        return
    try:
        os.posix_fallocate(descriptor, before, size - before)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        os.truncate(descriptor, before)
        raise NoMemoryForSnapshot(
            f"the system has no {size - before} bytes left for a snapshot"
        ) from None


def extend(descriptor: int, size: int) -> None:
    """Grow a memory file to at least ``size`` bytes without allocating them. Pages are allocated by
    the first write, which saves clearing pages that are overwritten anyway."""
    if size > os.fstat(descriptor).st_size:
        os.truncate(descriptor, size)


def reopen(descriptor: int) -> int:
    """Open a second, independent descriptor of the same memory: its locks are its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)


LARGE = 2 << 20
"""Bytes of a large page on x86-64 and most ARM64 kernels. With another size everything still works,
only without large pages."""

_POPULATED_AT_ONCE = 8 << 20
"""Bytes per call: the kernel locks the process's memory map meanwhile, and starting a thread needs
it, too."""

_GATHERED_AT_ONCE = 16 << 20
_UNMAPPED_AT_ONCE = 8 << 20

_POPULATE_WRITE = 23
"""Linux 5.14 and later; older kernels refuse it, and the first copy is slower."""

_COLLAPSE = 25
"""Linux 6.1 and later. Processes that have the pages mapped keep using them meanwhile."""

_NOWHERE = ctypes.c_void_p(-1).value
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FIXED = 0x10


class Mapping:
    """A mapped memory file. Its views keep it alive; it is unmapped with the last of them."""

    def __init__(self, descriptor: int, *, writable: bool) -> None:
        """Map all of the file at its current size.

        The kernel keeps the open file of a mapping, and with it any lock: so the mapping gets an
        open file of its own, and closing the locked descriptor releases the lock.
        """
        own = reopen(descriptor)
        try:
            self.size = os.fstat(own).st_size
            self._start, whole = _map_aligned(own, self.size, writable=writable)
        finally:
            os.close(own)
        self.view = whole if writable else whole.toreadonly()
        """All bytes of the file."""

    def populate(self) -> bool:
        """Enter the pages of a writable mapping into the page table, without changing them; returns
        whether the kernel supports it. Other threads run meanwhile."""
        return self._advise(_POPULATE_WRITE, at_once=_POPULATED_AT_ONCE)

    def collapse(self) -> bool:
        """Collapse the file's pages into large ones; returns whether the kernel could, at least in
        part."""
        return self._advise(_COLLAPSE, at_once=_GATHERED_AT_ONCE)

    def _advise(self, advice: int, *, at_once: int) -> bool:
        for begin in range(0, self.size, at_once):
            length = min(at_once, self.size - begin)
            if _LIBC.madvise(self._start + begin, length, advice) != 0:
                if ctypes.get_errno() in (errno.ENOMEM, errno.EAGAIN, errno.EBUSY):
                    continue
                return False
        return True


def map_memory(descriptor: int, *, writable: bool) -> memoryview:
    """All bytes of a memory file."""
    return Mapping(descriptor, writable=writable).view


def collapse_pages(descriptor: int) -> bool:
    """Ask for large pages in a memory file; returns whether the kernel provided any. Takes at least
    as long as copying the file."""
    return Mapping(descriptor, writable=True).collapse()


def _map_aligned(descriptor: int, size: int, *, writable: bool) -> tuple[int, memoryview]:
    """Reserve more than is needed, and map the file at the first aligned address in it."""
    reserved = size + LARGE
    base = _mapped(None, reserved, 0, _RESERVED, -1)
    start = base + -base % LARGE
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        _mapped(start, size, protection, mmap.MAP_SHARED | _FIXED, descriptor)
    except OSError:
        _unmap(base, reserved)
        raise
    whole = _pages(size).from_address(start)
    weakref.finalize(whole, _unmap, base, reserved).atexit = False
    return start, memoryview(whole).cast("B")


@functools.lru_cache(maxsize=64)
def _pages(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    """The array type for a mapping; a class of our own, since only such accepts a finalizer."""

    class Pages(ctypes.Array[ctypes.c_char]):
        _type_ = ctypes.c_char
        _length_ = size

    return Pages


def _mapped(start: int | None, size: int, protection: int, flags: int, descriptor: int) -> int:
    found = _LIBC.mmap(start, size, protection, flags, descriptor, 0)
    if found in (None, _NOWHERE):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot map memory: {os.strerror(number)}")
    return int(found)


def _unmap(start: int, size: int) -> None:
    """Unmap in pieces: each call blocks other threads' mappings, and small pages take long."""
    for begin in range(0, size, _UNMAPPED_AT_ONCE):
        _LIBC.munmap(start + begin, min(_UNMAPPED_AT_ONCE, size - begin))


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = address
    library.mmap.argtypes = [address, size, number, number, number, ctypes.c_long]
    library.munmap.argtypes = [address, size]
    library.madvise.argtypes = [address, size, number]
    return library


_LIBC = _load_library()
"""Loaded on import, before a worker starts to restore: looking up three names in a process with
torch takes milliseconds."""
