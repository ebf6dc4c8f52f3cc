"""Storage in an object store: S3, Google Storage, or any other that fsspec supports.

A file is one object: small ones are put in one request, large ones are uploaded in blocks that
become an object when the last one is complete; either way the object appears complete or not at
all. An upload that fails is aborted, never closed, because closing would create an object from the
blocks uploaded so far.

Stores without that property (fsspec also supports SFTP and others) can show a partial file; the
commit protocol still never counts it, because no entry with its checksum exists.

fsspec and its drivers are imported when an address needs them. Their exceptions have no common base
class (botocore's, aiohttp's, google's own), so all are caught here.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from resile.checkpoint.errors import (
    BadAddress,
    CheckpointError,
    NotOnStorage,
    StorageError,
    StorageRefused,
)
from resile.checkpoint.storage.base import StorageItem, StoredFile

__all__ = ["ObjectStorage"]

BLOCK = 32 << 20
"""Bytes of an upload's block: S3 allows 10,000 of them, so this suffices for parts of 320 GB."""

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""The extra of Resile that installs the driver of a scheme."""

_WITHOUT_FOLDERS = frozenset({*EXTRAS, "az", "abfs", "memory"})

_NOT_ALLOWED = frozenset({"401", "403"})

_WHEN = ("LastModified", "updated", "last_modified", "mtime", "modified", "created")
"""The keys under which drivers report an object's time."""


class ObjectStorage:
    """A prefix in an object store as a :class:`~resile.checkpoint.storage.base.Storage`."""

    def __init__(self, address: str, *, options: Mapping[str, Any]) -> None:
        """``options`` go to the driver (``endpoint_url``, ``token``…); raises BadAddress."""
        self.address = address.rstrip("/")
        self._scheme = urlsplit(address).scheme
        self._fs, self._root = _open_driver(address, self._scheme, options)

    def write(
        self,
        path: str,
        chunks: Iterable[memoryview],
        *,
        just_before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write an object, in one request or as an upload in blocks."""
        target = self._path(path)
        pieces = iter(chunks)
        head = bytearray()
        with self._named(path, "write"):
            if self._scheme not in _WITHOUT_FOLDERS:
                self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            for piece in pieces:
                head += piece
                if len(head) >= BLOCK:
                    self._upload(target, head, pieces, just_before)
                    return
            just_before()
            self._fs.pipe_file(target, bytes(head))

    def _upload(
        self,
        target: str,
        head: bytearray,
        rest: Iterator[memoryview],
        just_before: Callable[[], None],
    ) -> None:
        file = self._fs.open(target, "wb", block_size=BLOCK)
        try:
            file.write(head)
            for piece in rest:
                file.write(piece)
            just_before()
            file.close()
        except BaseException:
            with suppress(Exception):
                file.discard()
            # Otherwise the file's finalizer closes it, and the blocks so far become an object.
            file.closed = True
            raise

    def open(self, path: str) -> StoredFile:
        """Open an object for reading."""
        with self._named(path, "read"):
            self._fs.invalidate_cache()
            size = int(self._fs.info(self._path(path))["size"])
        return _Object(self, path, size)

    def read(self, path: str, begin: int, end: int) -> memoryview:
        """Read a range of an object."""
        if begin == end:
            return memoryview(b"")
        with self._named(path, "read"):
            data = memoryview(self._fs.cat_file(self._path(path), start=begin, end=end))
        if len(data) != end - begin:
            raise StorageError(f"cannot read {self.address}/{path}: it ends before byte {end}")
        return data

    def list(self, folder: str = "") -> list[StorageItem]:
        """List the objects below a prefix."""
        with self._named(folder, "list"):
            self._fs.invalidate_cache()
            where = self._path(folder)
            found = self._fs.ls(where, detail=True)
        items = [_item(one) for one in found if one["name"].strip("/") != where.strip("/")]
        return sorted(items, key=lambda item: item.name)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects."""
        for path in paths:
            with self._named(path, "delete"), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(path))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @contextmanager
    def _named(self, path: str, doing: str) -> Iterator[None]:
        """Turn any exception of a driver into a StorageError that names the object."""
        said = f"cannot {doing} {self.address}/{path}".rstrip("/")
        try:
            yield
        except CheckpointError:
            raise
        except FileNotFoundError as error:
            # For a write the bucket is missing; a retry will not create it.
            said = f"{said}: {_first_line(error) or 'not found'}"
            raise (StorageRefused if doing == "write" else NotOnStorage)(said) from error
        except Exception as error:
            kind = StorageRefused if _is_refusal(error) else StorageError
            raise kind(f"{said}: {_first_line(error) or type(error).__name__}") from error


class _Object:
    """An object, read in ranges."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        self.size = size
        self._storage = storage
        self._path = path

    def read(self, begin: int, end: int) -> memoryview:
        """Takes a single request."""
        return self._storage.read(self._path, begin, end)

    def read_into(self, begin: int, buffer: memoryview) -> None:
        """Takes a single request, and a copy of the bytes."""
        buffer[:] = self.read(begin, begin + len(buffer))

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open between requests."""


def _open_driver(address: str, scheme: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    extra = EXTRAS.get(scheme)
    bring = f"install resile[{extra}]" if extra else f"install fsspec's driver for '{scheme}'"
    try:
        fsspec = importlib.import_module("fsspec")
        # Not the cached instance: it may have been inherited through a fork.
        fs, root = fsspec.core.url_to_fs(address, skip_instance_cache=True, **options)
    except ImportError as error:
        raise BadAddress(f"'{address}' cannot be used yet: {bring} ({error})") from error
    except ValueError as error:
        raise BadAddress(
            f"'{address}' is not a storage: {_first_line(error)}. "
            "Give a path, s3://bucket/folder or gs://bucket/folder."
        ) from error
    except Exception as error:
        raise BadAddress(f"'{address}' cannot be opened: {_first_line(error)}") from error
    return fs, str(root).rstrip("/")


def _item(found: Mapping[str, Any]) -> StorageItem:
    return StorageItem(
        name=str(found["name"]).rstrip("/").rpartition("/")[2],
        size=int(found.get("size") or 0),
        modified=_when(found),
        is_folder=found["type"] == "directory",
    )


def _when(found: Mapping[str, Any]) -> float:
    when = next((found[key] for key in _WHEN if found.get(key) is not None), None)
    with suppress(ValueError):
        if isinstance(when, str):
            when = datetime.fromisoformat(when.replace("Z", "+00:00"))
        if isinstance(when, datetime):
            return when.timestamp()
    return float(when) if isinstance(when, int | float) else time.time()


def _is_refusal(error: Exception) -> bool:
    """Whether access is denied, as reported by each driver: s3fs by the type, gcsfs by the code of
    its own exception or, for 403, by the first word of a plain OSError."""
    return (
        isinstance(error, PermissionError)
        or "Credentials" in type(error).__name__
        or str(getattr(error, "code", "")) in _NOT_ALLOWED
        or (type(error) is OSError and str(error).startswith("Forbidden"))
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
