"""Headers of parts without their data, and how several of them are passed to a worker.

A header can be larger than a packet and there can be many, so the server passes them to a worker in
a memory file, one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from resile.checkpoint import memory
from resile.checkpoint.part import LARGEST_HEADER
from resile.checkpoint.slots import BEGIN

__all__ = ["LARGEST_WITH_LENGTH", "LENGTH_FIELD", "header_in", "pack_headers", "unpack_headers"]

LENGTH_FIELD = 8
"""Bytes of the length field in front of a header; here they count as part of it."""

LARGEST_WITH_LENGTH = LENGTH_FIELD + LARGEST_HEADER
"""Maximum bytes of a header including its length field."""


def header_in(slot: int, size: int) -> bytes | None:
    """Read the header of the part of ``size`` bytes in a slot; None if its length is invalid."""
    length = LENGTH_FIELD + int.from_bytes(os.pread(slot, LENGTH_FIELD, BEGIN), "little")
    return os.pread(slot, length, BEGIN) if length <= min(size, LARGEST_WITH_LENGTH) else None


def pack_headers(headers: Sequence[bytes]) -> int:
    """Write headers to a memory file; returns its descriptor. Raises :class:`NoRoom`."""
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
