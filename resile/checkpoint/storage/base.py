"""The storage interface: the smallest seam between the commit protocol and any storage.

A storage is a folder, local or remote, with four operations: write a file atomically and durably,
open one for reading, list a folder, delete files. Paths are relative to it and use ``/``.
Everything above (commit, catalog, export) is built on these four.

A storage raises only :class:`~resile.checkpoint.errors.StorageError`, whose text names the file
and gives the system's error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from resile.checkpoint.errors import BadAddress, PartDamaged

__all__ = ["StorageItem", "StoredFile", "Storage", "open_storage", "read_whole"]


LARGEST_RECORD = 64 << 20
"""Maximum bytes of a manifest or an entry. A manifest of 100,000 parts has a third of that."""


class StorageItem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a folder listing."""

    name: str
    size: int = 0
    modified: float = 0.0
    """Unix time; the current time if the storage has none, so that the file never looks old."""

    is_folder: bool = False


class StoredFile(Protocol):
    """A file opened for reading. ``with`` closes it."""

    size: int

    def read(self, begin: int, end: int) -> memoryview:
        """The bytes from ``begin`` to ``end``, without a copy where they can be mapped. A mapping
        lives as long as its views."""
        ...

    def read_into(self, begin: int, buffer: memoryview) -> None:
        """Fill the buffer. A failing disk raises an error, whereas touching mapped bytes of one
        ends the process (SIGBUS)."""
        ...

    def __enter__(self) -> StoredFile: ...

    def __exit__(self, *error: object) -> None: ...


def _nothing() -> None:
    """The default ``just_before``: no check."""


class Storage(Protocol):
    """A folder of files, local or remote."""

    address: str
    """The address as a user would write it."""

    def write(
        self, path: str, chunks: Iterable[memoryview], *, just_before: Callable[[], None] = _nothing
    ) -> None:
        """Write a file, replacing an existing one. On return it is durable; on error the old file
        is unchanged. Folders are created as needed.

        ``just_before`` is called when only the operation that makes the file visible is left; if
        it raises, nothing changes."""
        ...

    def open(self, path: str) -> StoredFile:
        """Open a file for reading; raises :class:`NotOnStorage`."""
        ...

    def list(self, folder: str = "") -> list[StorageItem]:
        """List a folder, sorted by name; raises :class:`NotOnStorage`."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and folders that become empty; missing files are ignored. On return the
        deletion is durable."""
        ...


def open_storage(address: str | os.PathLike[str], **options: Any) -> Storage:
    """Open the storage at a path, a ``file://`` address, or any address that fsspec supports
    (``s3://``, ``gs://``, ``memory://``). ``options`` go to fsspec. Raises :class:`BadAddress`.

    Nothing is accessed yet: a missing folder is created by the first write.
    """
    text = os.fspath(address)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in ("", "file"):
        return _local(text, scheme)
    from resile.checkpoint.storage.object import ObjectStorage

    return ObjectStorage(text, options=options)


def _local(text: str, scheme: str) -> Storage:
    from resile.checkpoint.storage.local import LocalStorage

    if not scheme:
        if not text:
            raise BadAddress("a checkpoint folder needs a name; '.' is the current one")
        return LocalStorage(Path(text).expanduser())
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise BadAddress(f"'{text}' is not on this machine; write it as file:///absolute/path")
    return LocalStorage(Path(unquote(parts.path)))


def read_whole(storage: Storage, path: str) -> bytes:
    """Read a small file; raises :class:`PartDamaged` for one too large to be Resile's."""
    with storage.open(path) as file:
        if file.size > LARGEST_RECORD:
            raise PartDamaged(
                f"{storage.address}/{path} has {file.size} bytes, and at most {LARGEST_RECORD} are "
                "read: it is not a file that Resile wrote"
            )
        buffer = bytearray(file.size)
        file.read_into(0, memoryview(buffer))
        return bytes(buffer)
