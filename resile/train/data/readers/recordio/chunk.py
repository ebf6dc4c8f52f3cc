"""Encoding and decoding of a chunk of a RecordIO file.

A file is a sequence of chunks. A chunk is a header of five little-endian 32-bit numbers (magic
number, CRC-32 of the data as stored, compression, size of the data as stored, number of records),
and the data: for each record its length in 32 bits and its bytes, compressed as a whole. This is
the layout that the Go library and the ``pyrecordio`` built on it write; its default is snappy in 32
MB chunks. An older pure-Python ``recordio`` package had the same magic number with the header's
fields in another order: its files are refused here as damaged.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from resile.train.data.readers.recordio import snappy

__all__ = ["HEADER_SIZE", "WRITABLE", "RecordChunk", "Compression", "ChunkHeader", "pack", "unpack"]

MAGIC = 0x01020304
LARGEST = (1 << 32) - 1

_HEADER = struct.Struct("<IIIII")
HEADER_SIZE = _HEADER.size

BEST_RATIO = 1100
"""gzip compresses at most 1032 to 1. The number of records has no checksum: a wrong one must not
cause a large allocation."""
_LENGTH = struct.Struct("<I")


class Compression(IntEnum):
    """The compression of a chunk's data. All can be read; :data:`WRITABLE` can be written."""

    NONE = 0
    SNAPPY = 1
    GZIP = 2


@dataclass(frozen=True)
class ChunkHeader:
    """The header of a chunk."""

    checksum: int
    compression: Compression
    size: int
    records: int

    def encoded(self) -> bytes:
        """Encode it as in the file."""
        return _HEADER.pack(MAGIC, self.checksum, self.compression, self.size, self.records)

    @classmethod
    def decoded(cls, data: bytes) -> ChunkHeader:
        """Decode a header; raises ValueError."""
        magic, checksum, compression, size, records = _HEADER.unpack(data)
        if magic != MAGIC:
            raise ValueError(f"begins with {magic:#010x} and not with {MAGIC:#010x}")
        if compression not in list(Compression):
            raise ValueError(f"has the unknown compression {compression}")
        if records * _LENGTH.size > size * BEST_RATIO:
            raise ValueError(f"cannot have {records} records in {size} bytes")
        return cls(checksum, Compression(compression), size, records)


@dataclass(frozen=True)
class RecordChunk:
    """A chunk's records, accessed by number."""

    data: bytes
    ends: array[int]

    def __getitem__(self, index: int) -> bytes:
        begin = self.ends[index - 1] if index else 0
        return self.data[begin + _LENGTH.size : self.ends[index]]


def pack(records: Iterable[bytes], *, compression: Compression) -> bytes:
    """Encode records as a chunk."""
    pieces: list[bytes] = []
    for record in records:
        pieces += (_LENGTH.pack(len(record)), record)
    data = _COMPRESS[compression](b"".join(pieces))
    header = ChunkHeader(zlib.crc32(data), compression, len(data), len(pieces) // 2)
    return header.encoded() + data


def unpack(header: ChunkHeader, data: bytes) -> RecordChunk:
    """Decode the records after a header; raises ValueError."""
    if zlib.crc32(data) != header.checksum:
        raise ValueError("is damaged: its checksum is wrong")
    try:
        plain = _DECOMPRESS[header.compression](data)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"cannot be decompressed: {error}") from None
    ends = array("q", _ends(plain, header.records))
    if (ends[-1] if ends else 0) != len(plain):
        raise ValueError("has bytes that belong to no record")
    return RecordChunk(plain, ends)


def _ends(data: bytes, records: int) -> Iterator[int]:
    at = 0
    for index in range(records):
        if at + _LENGTH.size > len(data):
            raise ValueError(f"ends before its record {index}")
        at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if at > len(data):
            raise ValueError(f"ends within its record {index}")
        yield at


_COMPRESS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: gzip.compress,
}
WRITABLE = tuple(_COMPRESS)
"""Without snappy: its frames need a CRC-32C, which the standard library does not have."""

_DECOMPRESS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: bytes,
    Compression.SNAPPY: snappy.decompress,
    Compression.GZIP: gzip.decompress,
}
