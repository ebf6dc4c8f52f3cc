"""Parts in a node's memory, opened for reading, and headers of parts without their data.

A part is opened from the descriptor that the server sends. A header can be larger than a packet and
there can be many, so the server passes them to a worker in a memory file, one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from resile.checkpoint.part import LARGEST_HEADER
from resile.snapshots import memory
from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.memory import map_memory
from resile.snapshots.slots import BEGIN, Label

__all__ = [
    "ArrivingPart",
    "HeldPart",
    "LARGEST_WITH_LENGTH",
    "LENGTH_FIELD",
    "header_in",
    "opened_parts",
    "pack_headers",
    "received",
    "unpack_headers",
]


LENGTH_FIELD = 8
"""Bytes of the length field in front of a header; here they count as part of it."""

LARGEST_WITH_LENGTH = LENGTH_FIELD + LARGEST_HEADER
"""Maximum bytes of a header including its length field."""


def header_in(slot: int, size: int) -> bytes | None:
    """Read the header of the part of ``size`` bytes in a slot; None if its length is invalid."""
    length = LENGTH_FIELD + int.from_bytes(os.pread(slot, LENGTH_FIELD, BEGIN), "little")
    return os.pread(slot, length, BEGIN) if length <= min(size, LARGEST_WITH_LENGTH) else None


def pack_headers(headers: Sequence[bytes]) -> int:
    """Write headers to a memory file; returns its descriptor.

    Raises :class:`NoMemoryForSnapshot`.
    """
    descriptor = memory.create()
    try:
        memory.grow(descriptor, sum(map(len, headers)))
        offset = 0
        for header in headers:
            os.pwrite(descriptor, header, offset)
            offset += len(header)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unpack_headers(descriptor: int, lengths: Sequence[int]) -> list[bytes]:
    """Read the headers from a memory file, and close it."""
    try:
        offset, headers = 0, []
        for length in lengths:
            headers.append(os.pread(descriptor, length, offset))
            offset += length
        return headers
    finally:
        os.close(descriptor)


class HeldPart:
    """A part in memory, opened for reading. It cannot be overwritten until it is closed."""

    def __init__(self, label: Label, descriptor: int, *, size: int) -> None:
        self.label = label
        self.size = size
        self._descriptor = descriptor
        self.buffer = map_memory(descriptor, writable=False)[BEGIN : BEGIN + size]
        """Valid as long as it is referenced; not overwritten until this part is closed."""

    def need(self, end: int) -> None:
        """Wait for the bytes up to ``end``: all of them are here."""

    def close(self) -> None:
        """Release the slot."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HeldPart:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ArrivingPart(HeldPart):
    """A part that is still being received; ``wait`` blocks until enough bytes are here and returns
    their number."""

    def __init__(
        self, label: Label, descriptor: int, *, size: int, wait: Callable[[int], int]
    ) -> None:
        super().__init__(label, descriptor, size=size)
        self._wait = wait
        self._come = 0

    def need(self, end: int) -> None:
        """Wait for the bytes up to ``end``; raises :class:`SnapshotRequestRefused` if they cannot
        be received."""
        if end > self._come:
            self._come = self._wait(min(end, self.size))


def opened_parts(
    labels: Sequence[Label], sizes: Sequence[int], *, descriptors: Sequence[int]
) -> list[HeldPart]:
    """Open the parts of these descriptors, and take ownership of them."""
    received(descriptors, len(labels))
    with ExitStack() as undo:
        for descriptor in descriptors:
            undo.callback(os.close, descriptor)
        parts = [
            HeldPart(label, descriptor, size=size)
            for label, size, descriptor in zip(labels, sizes, descriptors, strict=True)
        ]
        undo.pop_all()
    return parts


def received(descriptors: Sequence[int], count: int) -> None:
    """Close all descriptors and raise :class:`SnapshotRequestRefused` if fewer came than were sent:
    the kernel silently drops those above the process's limit."""
    if len(descriptors) < count:
        for descriptor in descriptors:
            os.close(descriptor)
        raise SnapshotRequestRefused(
            f"only {len(descriptors)} of {count} parts could be opened: this process has too many "
            "open files (ulimit -n)"
        )
