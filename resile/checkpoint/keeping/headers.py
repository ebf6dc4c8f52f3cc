"""Headers of parts without their bytes: what one is, and how several reach a worker.

A header can be larger than a packet and there can be many, so a keeper hands them to a worker in a
memory file, one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from resile.checkpoint import memory
from resile.checkpoint.part import LARGEST_HEADER
from resile.checkpoint.slots import BEGIN

__all__ = ["LARGEST", "LEAST", "header_in", "pack", "unpack"]

LEAST = 8
"""Bytes in front of a header that say how long it is; they belong to it here."""

LARGEST = LEAST + LARGEST_HEADER


def header_in(slot: int, size: int) -> bytes | None:
    """Of the part of ``size`` bytes in a slot; None if it cannot be as long as it says."""
    length = LEAST + int.from_bytes(os.pread(slot, LEAST, BEGIN), "little")
    return os.pread(slot, length, BEGIN) if length <= min(size, LARGEST) else None


def pack(headers: Sequence[bytes]) -> int:
    """A descriptor of memory that has them; raises :class:`NoRoom`."""
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


def unpack(descriptor: int, lengths: Sequence[int]) -> list[bytes]:
    """What was packed; closes the descriptor."""
    try:
        offset, headers = 0, []
        for length in lengths:
            headers.append(os.pread(descriptor, length, offset))
            offset += length
        return headers
    finally:
        os.close(descriptor)
