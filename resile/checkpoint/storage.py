"""Where checkpoints lie: the smallest seam between the commit protocol and any storage.

A storage is a folder, local or remote, that can do four things: write a file so that it is there
whole and durable or not at all, open one for reading, list a folder, delete files. Paths are
relative to it and use ``/``. Everything above (commit, shelf, export) is built on these four.

What a storage raises is a :class:`~resile.checkpoint.errors.StorageTrouble` whose text names the
file and says what the system said; nothing else goes through.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from resile.checkpoint.errors import BadAddress, PartDamaged

__all__ = ["Item", "OpenFile", "Storage", "open_storage", "read_whole"]


LARGEST_RECORD = 64 << 20
"""Bytes of a manifest or an entry. A manifest of 100,000 parts has a third of that."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a folder's list."""

    name: str
    size: int = 0
    modified: float = 0.0
    """Unix time; the present where the storage does not say, so that it never looks old."""

    is_folder: bool = False


class OpenFile(Protocol):
    """A file being read. ``with`` closes it."""

    size: int

    def read(self, begin: int, end: int) -> memoryview:
        """The bytes from ``begin`` to ``end``: without a copy where they can be mapped. What was
        mapped lives as long as somebody holds the view."""
        ...

    def read_into(self, begin: int, buffer: memoryview) -> None:
        """Fill the buffer. Reports a failing disk as an error, where touching mapped bytes of one
        would end the process (SIGBUS)."""
        ...

    def __enter__(self) -> OpenFile: ...

    def __exit__(self, *error: object) -> None: ...


def _nothing() -> None:
    """No condition."""


class Storage(Protocol):
    """One folder of files."""

    address: str
    """As a user would write it."""

    def write(
        self, path: str, chunks: Iterable[memoryview], *, just_before: Callable[[], None] = _nothing
    ) -> None:
        """Write a file in place of what was there. When this returns it is durable; when it does
        not, what was there before is still there. Folders are made as needed.

        ``just_before`` is called when all that is left to do is the one operation that makes the
        file appear; what it raises leaves everything as it was."""
        ...

    def open(self, path: str) -> OpenFile:
        """Open a file for reading; raises :class:`NotThere`."""
        ...

    def list(self, folder: str = "") -> list[Item]:
        """What is in a folder, in the order of names; raises :class:`NotThere`."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and folders that become empty by it; one that is not there is well. When
        this returns none of them can come back."""
        ...


def open_storage(address: str | os.PathLike[str], **options: Any) -> Storage:
    """The storage at a path, a ``file://`` address, or anything fsspec knows (``s3://``, ``gs://``,
    ``memory://``). ``options`` go to fsspec. Raises :class:`BadAddress`.

    Nothing is looked up yet: a folder that does not exist is made by the first write.
    """
    text = os.fspath(address)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in ("", "file"):
        return _local(text, scheme)
    from resile.checkpoint.object_storage import ObjectStorage

    return ObjectStorage(text, options=options)


def _local(text: str, scheme: str) -> Storage:
    from resile.checkpoint.local_storage import LocalStorage

    if not scheme:
        if not text:
            raise BadAddress("a checkpoint folder needs a name; '.' is the present one")
        return LocalStorage(Path(text).expanduser())
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise BadAddress(f"'{text}' is not on this machine; write it as file:///absolute/path")
    return LocalStorage(Path(unquote(parts.path)))


def read_whole(storage: Storage, path: str) -> bytes:
    """All of a small file; raises :class:`PartDamaged` for one that is none of ours."""
    with storage.open(path) as file:
        if file.size > LARGEST_RECORD:
            raise PartDamaged(
                f"{storage.address}/{path} has {file.size} bytes, and at most {LARGEST_RECORD} are "
                "read: it is not a file that Resile wrote"
            )
        buffer = bytearray(file.size)
        file.read_into(0, memoryview(buffer))
        return bytes(buffer)
