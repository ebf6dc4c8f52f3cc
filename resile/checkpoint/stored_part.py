"""A part of a checkpoint on storage, opened for reading: its header first, then any range of it.

Local parts are mapped, so that restoring copies each byte once; from remote ones only the requested
ranges are fetched.
"""

from __future__ import annotations

from resile.checkpoint.errors import NotThere, PartDamaged
from resile.checkpoint.manifest import PartEntry
from resile.checkpoint.part import LARGEST_HEADER, PartHeader, PartLayout, read_header
from resile.checkpoint.shelf import Checkpoint
from resile.checkpoint.storage import OpenFile, Storage

__all__ = ["StoredPart"]

LENGTH = 8
FIRST_READ = 256 << 10
"""Bytes. Most headers are smaller, so that one request is enough."""


class StoredPart:
    """A part on storage. ``with`` closes it; views that were read stay valid."""

    header: PartHeader
    layout: PartLayout

    def __init__(self, storage: Storage, checkpoint: Checkpoint, entry: PartEntry) -> None:
        """Read the header; raises PartDamaged if it does not match the manifest."""
        path = checkpoint.path(entry)
        self.source = f"{storage.address}/{path}"
        try:
            self._file: OpenFile = storage.open(path)
        except NotThere:
            raise PartDamaged(f"{self.source} is missing") from None
        try:
            if self._file.size != entry.size:
                raise PartDamaged(
                    f"{self.source} has {self._file.size} bytes instead of {entry.size}"
                )
            self.header, self.layout = read_header(self._first_bytes(), source=self.source)
            self._check(checkpoint, entry)
        except BaseException:
            self._file.__exit__(None, None, None)
            raise

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes at these offsets from the start of the part, as given by the layout."""
        return self._file.read(begin, end)

    def _first_bytes(self) -> memoryview:
        size = self._file.size
        first = self._file.read(0, min(size, FIRST_READ))
        needed = LENGTH + int.from_bytes(first[:LENGTH], "little")
        if len(first) < needed <= min(size, LENGTH + LARGEST_HEADER):
            return self._file.read(0, needed)
        return first

    def _check(self, checkpoint: Checkpoint, entry: PartEntry) -> None:
        header = self.header
        said = (header.group, header.step, header.kind, header.index, header.count)
        group = checkpoint.manifest.group
        meant = (group, checkpoint.step, entry.kind, entry.index, entry.count)
        if said != meant or self.layout.size != entry.size:
            raise PartDamaged(f"{self.source} is not the part that the manifest names")

    def __enter__(self) -> StoredPart:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)
