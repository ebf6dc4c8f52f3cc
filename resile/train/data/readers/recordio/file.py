"""Reader and writer for RecordIO files that ElasticDL can read and write.

Opening a file reads its headers. Reading a record decodes its chunk, unless that is cached;
neighbouring records share one. A file whose last chunk is truncated is refused: a chunk is written
when it is full and at the end, so a killed writer leaves whole chunks and at most one truncated
chunk at the end.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from resile.train.data.errors import DataMistake, RecordDamaged
from resile.train.data.readers.base import Reader
from resile.train.data.readers.files import DecodedCache, LocalFile
from resile.train.data.readers.recordio.chunk import (
    HEADER_SIZE,
    LARGEST,
    WRITABLE,
    ChunkHeader,
    Compression,
    RecordChunk,
    pack,
    unpack,
)

__all__ = [
    "RecordIOReader",
    "RecordIOWriter",
]


KEEP = 4
"""Number of decoded chunks in the cache; ElasticDL writes them with 32 MB each."""


class RecordIOReader(Reader):
    """Reads a RecordIO file. A record is bytes."""

    def __init__(self, path: str | Path, *, keep: int = KEEP) -> None:
        self._file = LocalFile(Path(path))
        self._offsets: list[int] = []
        self._headers: list[ChunkHeader] = []
        self._ends: list[int] = []
        self._scan()
        self._chunks = DecodedCache(self._unpacked, capacity=max(keep, 1))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __repr__(self) -> str:
        return f"RecordIOReader({str(self._file.path)!r})"

    def _records(self, start: int, stop: int) -> Iterator[bytes]:
        number = bisect_right(self._ends, start)
        while start < stop:
            begin = self._ends[number - 1] if number else 0
            until = min(stop, self._ends[number])
            chunk = self._chunks[number]
            for index in range(start - begin, until - begin):
                yield chunk[index]
            start, number = until, number + 1

    def _scan(self) -> None:
        at = total = 0
        while at < self._file.size:
            try:
                header = ChunkHeader.decoded(
                    self._file.read(at, min(at + HEADER_SIZE, self._file.size))
                )
            except ValueError as error:
                raise self._damage(at, str(error)) from None
            except struct.error:
                raise self._damage(at, "is truncated in its header") from None
            self._offsets.append(at)
            self._headers.append(header)
            total += header.records
            self._ends.append(total)
            at += HEADER_SIZE + header.size
        if at > self._file.size:
            raise self._damage(self._offsets[-1], f"is truncated: it would end at byte {at}")

    def _unpacked(self, number: int) -> RecordChunk:
        begin = self._offsets[number] + HEADER_SIZE
        header = self._headers[number]
        try:
            return unpack(header, self._file.read(begin, begin + header.size))
        except ValueError as error:
            raise self._damage(self._offsets[number], str(error)) from None

    def _damage(self, offset: int, what: str) -> RecordDamaged:
        return RecordDamaged(f"{self._file.path}: the chunk at byte {offset} {what}")


CHUNK = 1 << 20
"""Bytes of records per chunk: reading one record decompresses its whole chunk."""


class RecordIOWriter:
    """Writes records to a new file; a context manager."""

    def __init__(
        self,
        path: str | Path,
        *,
        compression: Compression | str = Compression.GZIP,
        chunk_size: int = CHUNK,
    ) -> None:
        self._compression = _chosen(compression)
        if not 1 <= chunk_size <= LARGEST:
            raise DataMistake(f"chunk_size={chunk_size} must be from 1 to {LARGEST}")
        self._chunk_size = chunk_size
        self._waiting: list[bytes] = []
        self._size = 0
        self._file = open(path, "wb")  # noqa: SIM115

    def write(self, record: bytes) -> None:
        """Append a record, which may be empty."""
        if len(record) > LARGEST:
            raise DataMistake(f"a record of {len(record)} bytes is too long for RecordIO")
        if self._waiting and self._size + len(record) > self._chunk_size:
            self._flush()
        self._waiting.append(bytes(record))
        self._size += len(record)

    def close(self) -> None:
        """Write the remaining records and close the file."""
        if not self._file.closed:
            self._flush()
            self._file.close()

    def __enter__(self) -> RecordIOWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write(pack(self._waiting, compression=self._compression))
        self._waiting, self._size = [], 0


def _chosen(compression: Compression | str) -> Compression:
    names = {one.name.lower(): one for one in WRITABLE}
    name = compression.name if isinstance(compression, Compression) else compression
    if name.lower() not in names:
        raise DataMistake(f"compression={name.lower()!r} must be one of {', '.join(names)}")
    return names[name.lower()]
