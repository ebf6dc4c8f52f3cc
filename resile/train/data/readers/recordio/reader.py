"""Reader for RecordIO files.

Opening a file reads its headers. Reading a record decodes its chunk, unless that is cached;
neighbouring records share one. A file whose last chunk is truncated (its writer was killed) is
refused.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from resile.train.data.errors import RecordDamaged
from resile.train.data.readers.base import Reader
from resile.train.data.readers.openfile import OpenFile
from resile.train.data.readers.recent import Recent
from resile.train.data.readers.recordio.chunk import HEADER_SIZE, Chunk, Header, unpack

__all__ = ["RecordIOReader"]

KEEP = 4
"""Number of decoded chunks in the cache; ElasticDL writes them with 32 MB each."""


class RecordIOReader(Reader):
    """Reads a RecordIO file. A record is bytes."""

    def __init__(self, path: str | Path, *, keep: int = KEEP) -> None:
        self._file = OpenFile(Path(path))
        self._offsets: list[int] = []
        self._headers: list[Header] = []
        self._ends: list[int] = []
        self._scan()
        self._chunks = Recent(self._unpacked, capacity=max(keep, 1))

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
                header = Header.decoded(self._file.read(at, min(at + HEADER_SIZE, self._file.size)))
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

    def _unpacked(self, number: int) -> Chunk:
        begin = self._offsets[number] + HEADER_SIZE
        header = self._headers[number]
        try:
            return unpack(header, self._file.read(begin, begin + header.size))
        except ValueError as error:
            raise self._damage(self._offsets[number], str(error)) from None

    def _damage(self, offset: int, what: str) -> RecordDamaged:
        return RecordDamaged(f"{self._file.path}: the chunk at byte {offset} {what}")
