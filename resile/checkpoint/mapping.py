"""Memory files in a process's address space, in large pages where the kernel has them.

Entering a small page into a page table costs about as much as copying its bytes, and a process
that restores a snapshot maps it for the first time. So mappings begin where a large page may, and
:func:`gather` asks the kernel to put a file's small pages together into large ones: then mapping
costs next to nothing. That is a wish. Where it cannot be (kernels before 6.1, memory in fragments)
everything works as before, and :meth:`Mapping.populate` enters small pages ahead of use.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import weakref

from resile.checkpoint.memory import same_memory

__all__ = ["Mapping", "gather", "map_memory"]

LARGE = 2 << 20
"""Bytes of a large page on the processors that matter here; a start that suits a larger or
smaller one is not needed for anything to work."""

_POPULATED_AT_ONCE = 8 << 20
"""The kernel holds the process's memory map meanwhile; to start a thread needs it, too."""

_GATHERED_AT_ONCE = 16 << 20
_UNMAPPED_AT_ONCE = 8 << 20

_POPULATE_WRITE = 23
"""Linux 5.14 and later; older ones refuse it, and the first copy pays for its pages."""

_COLLAPSE = 25
"""Linux 6.1 and later. Whoever has the pages mapped goes on using them meanwhile."""

_NOWHERE = ctypes.c_void_p(-1).value
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FIXED = 0x10


class Mapping:
    """A memory file, mapped. Its views keep it alive; it goes when the last of them does."""

    def __init__(self, descriptor: int, *, writable: bool) -> None:
        """All of the file, as it is large now.

        The kernel keeps what a mapping was made from, and with it any lock: so it gets a descriptor
        of its own, and whoever closes the locked one has let go.
        """
        own = same_memory(descriptor)
        try:
            self.size = os.fstat(own).st_size
            self._start, whole = _map_aligned(own, self.size, writable=writable)
        finally:
            os.close(own)
        self.view = whole if writable else whole.toreadonly()
        """All bytes of the file."""

    def populate(self) -> bool:
        """Enter the pages of a writable mapping into the page table, content untouched; whether
        the kernel could. Other threads run meanwhile."""
        return self._advise(_POPULATE_WRITE, at_once=_POPULATED_AT_ONCE)

    def collapse(self) -> bool:
        """Have the file's pages put together into large ones; whether the kernel could, at least
        in part."""
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


def gather(descriptor: int) -> bool:
    """Ask for large pages in a memory file; whether the kernel could give any. Takes as long as
    copying it, and longer."""
    return Mapping(descriptor, writable=True).collapse()


def _map_aligned(descriptor: int, size: int, *, writable: bool) -> tuple[int, memoryview]:
    """Reserve more than is needed, and map the file at the first place in it that suits."""
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
    """Bytes at an address; a class of our own, since only such can be told to unmap in the end."""

    class Pages(ctypes.Array[ctypes.c_char]):
        _type_ = ctypes.c_char
        _length_ = size

    return Pages


def _mapped(start: int | None, size: int, protection: int, flags: int, descriptor: int) -> int:
    found = _LIBC.mmap(start, size, protection, flags, descriptor, 0)
    if found in (None, _NOWHERE):
        number = ctypes.get_errno()
        raise OSError(number, f"memory cannot be mapped: {os.strerror(number)}")
    return int(found)


def _unmap(start: int, size: int) -> None:
    """In pieces: meanwhile no other thread can map anything, and small pages take their time."""
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
"""Loaded when this is imported, which is before a worker is in a hurry: to look three names up in a
process with torch in it takes milliseconds."""
