"""Writer for RecordIO files that ElasticDL can read.

A chunk is written when it is full and at the end; a killed writer leaves whole chunks and at most
one truncated chunk at the end.
"""

from __future__ import annotations

from pathlib import Path

from resile.train.data.errors import DataMistake
from resile.train.data.readers.recordio.chunk import LARGEST, WRITABLE, Compression, pack

__all__ = ["RecordIOWriter"]

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
