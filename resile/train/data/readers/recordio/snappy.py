"""Decoder for snappy's framed stream; pyarrow decompresses the blocks.

A stream is a sequence of frames: a byte for the kind, three for the length, the content. The
content of compressed and of plain frames begins with a masked CRC-32C of the decompressed data. It
is not checked, as a RecordIO chunk has a checksum over all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from resile.train.data.readers.columnar import load

__all__ = ["decompress"]

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
COMPRESSED, PLAIN = 0x00, 0x01
FIRST_SKIPPABLE = 0x80
FRAME = 1 << 16
"""The largest decompressed size of a frame."""

_CHECKSUM = 4
"""Bytes."""


def decompress(data: bytes) -> bytes:
    """Decompress a whole stream; raises ValueError."""
    return b"".join(_pieces(data))


def _pieces(data: bytes) -> Iterator[bytes]:
    codec = _codec()
    if not data.startswith(IDENTIFIER):
        raise ValueError("it is not a snappy stream")
    at = 0
    while at < len(data):
        kind, length = data[at], int.from_bytes(data[at + 1 : at + 4], "little")
        content = data[at + 4 : at + 4 + length]
        at += 4 + length
        if len(content) != length:
            raise ValueError("a snappy frame is truncated")
        if kind == COMPRESSED:
            block = content[_CHECKSUM:]
            yield codec.decompress(block, decompressed_size=_plain_size(block), asbytes=True)
        elif kind == PLAIN:
            yield content[_CHECKSUM:]
        elif kind < FIRST_SKIPPABLE:
            raise ValueError(f"a snappy frame has the unknown kind {kind}")


def _plain_size(block: bytes) -> int:
    """The decompressed size of a block, encoded with seven bits per byte."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > FRAME:
        raise ValueError("a snappy frame is too large")
    return size


def _codec() -> Any:
    return load("pyarrow", what="snappy in RecordIO").Codec("snappy")
