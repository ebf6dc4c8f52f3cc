"""Storage in a folder of this machine, or of a mounted network file system.

A file is written under a temporary name in the same folder, synced, renamed to the final name, and
the folder is synced: after a power failure the file is complete or absent. A killed writer leaves
its temporary file; pruning removes such remains. Large writes bypass the page cache.

Files are read by mapping them, so that restoring copies each byte once, from the page cache into
the tensor. A network file system that fails under a mapping ends the process with SIGBUS;
``read_into`` does not map and raises an error instead.
"""

# Every operation calls a function of os by name, so that tests can make each of them fail.
# ruff: noqa: PTH102, PTH104, PTH106, PTH108
from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resile.checkpoint.errors import NotAStorageFile, NotOnStorage, StorageError, StorageRefused
from resile.checkpoint.names import TEMPORARY_ENDING
from resile.checkpoint.storage.base import StorageItem, StoredFile
from resile.system.regular_files import NotRegularFile, open_regular_file

__all__ = ["LocalStorage"]

_REFUSALS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
    }
)
"""Errors that a retry would meet again; all others (EIO, ESTALE, ETIMEDOUT…) may be transient."""

_CANNOT_SYNC_FOLDERS = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})
"""Some network and FUSE file systems cannot sync folders; syncing would not change the durability
of their renames."""


_DIRECT = getattr(os, "O_DIRECT", 0)
_LARGE = 1 << 20
_BLOCK = 4096
"""Bytes. Writes that bypass the page cache must be multiples of the disk's block size, which is at
most this."""


class LocalStorage:
    """A folder as a :class:`~resile.checkpoint.storage.base.Storage`."""

    def __init__(self, root: Path) -> None:
        """``root`` need not exist yet."""
        self.root = root.absolute()
        self.address = str(self.root)

    def write(
        self,
        path: str,
        chunks: Iterable[memoryview],
        *,
        just_before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a file atomically and durably, or leave the old one."""
        target = self.root / path
        with _named(target, "write"):
            _make_folders(target.parent)
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{TEMPORARY_ENDING}")
            try:
                _write_and_sync(temporary, chunks)
                just_before()
                os.rename(temporary, target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            _sync_folder(target.parent)

    def open(self, path: str) -> StoredFile:
        """Open a file for reading."""
        return _LocalFile(self.root / path)

    def list(self, folder: str = "") -> list[StorageItem]:
        """List a folder."""
        where = self.root / folder
        items = []
        with _named(where, "list"), os.scandir(where) as entries:
            for entry in entries:
                # Other writers rename and prune at the same time.
                with suppress(FileNotFoundError), _without_loops():
                    items.append(_item(entry))
        return sorted(items, key=lambda item: item.name)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and folders that become empty."""
        folders = set()
        for path in paths:
            target = self.root / path
            with _named(target, "delete"), suppress(FileNotFoundError):
                os.unlink(target)
                folders.add(target.parent)
        for folder in folders:
            with _named(folder, "delete in"), suppress(FileNotFoundError):
                _sync_folder(folder)
            if folder != self.root:
                with suppress(OSError):
                    os.rmdir(folder)


class _LocalFile:
    """An open file, mapped on the first ``read``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _named(path, "read"):
            self._fd = open_regular_file(path)
            self.size = os.fstat(self._fd).st_size
        self._mapped: memoryview | None = None

    def read(self, begin: int, end: int) -> memoryview:
        """A view of the file's pages."""
        if not 0 <= begin <= end <= self.size:
            raise StorageError(f"cannot read {self._path} up to byte {end}: it has {self.size}")
        if self._mapped is None:
            self._mapped = self._map()
        return self._mapped[begin:end]

    def _map(self) -> memoryview:
        if not self.size:
            return memoryview(b"")
        with _named(self._path, "map"):
            return memoryview(mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ))

    def read_into(self, begin: int, buffer: memoryview) -> None:
        """Read without mapping."""
        done = 0
        while done < len(buffer):
            with _named(self._path, "read"):
                got = os.preadv(self._fd, [buffer[done:]], begin + done)
            if not got:
                raise StorageError(f"cannot read {self._path}: it ends at byte {begin + done}")
            done += got

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *error: object) -> None:
        # Views keep the mapping alive; it is released with the last of them.
        self._mapped = None
        os.close(self._fd)


@contextmanager
def _without_loops() -> Iterator[None]:
    """Skip a symbolic link that points to itself, so that the other files are still listed."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise


def _item(entry: os.DirEntry[str]) -> StorageItem:
    found = entry.stat()
    is_folder = stat.S_ISDIR(found.st_mode)
    size = 0 if is_folder else found.st_size
    return StorageItem(name=entry.name, size=size, modified=found.st_mtime, is_folder=is_folder)


def _write_and_sync(path: Path, chunks: Iterable[memoryview]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for chunk in chunks:
            # Only whole blocks can bypass the page cache; the end of a file goes through it.
            _bypass_cache(fd, len(chunk) >= _LARGE and len(chunk) % _BLOCK == 0)
            done = 0
            while done < len(chunk):
                with chunk[done:] as rest:
                    done += _write_some(fd, rest)
        os.fsync(fd)
    finally:
        os.close(fd)


def _bypass_cache(fd: int, wanted: bool) -> None:
    """Switch direct I/O on or off: copying large writes into the page cache first would take memory
    bandwidth from training. On file systems without it they are copied."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if wanted != bool(flags & _DIRECT):
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETFL, flags ^ _DIRECT)


def _write_some(fd: int, data: memoryview) -> int:
    try:
        return os.write(fd, data)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    _bypass_cache(fd, wanted=False)  # the memory is not aligned as this disk requires
    return os.write(fd, data)


def _make_folders(folder: Path) -> None:
    """Create a folder and its parents, and sync each parent."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise
    finally:
        os.close(fd)


@contextmanager
def _named(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the file and the operation."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotOnStorage(f"cannot {doing} {path}: {error.strerror}") from error
    except NotRegularFile as error:
        raise NotAStorageFile(f"cannot {doing} {path}: {error.strerror}") from error
    except OSError as error:
        kind = StorageRefused if error.errno in _REFUSALS else StorageError
        raise kind(f"cannot {doing} {path}: {_said(error, path)}") from error


def _said(error: OSError, path: Path) -> str:
    said = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            found = os.statvfs(path.parent)
            return f"{said} ({found.f_bavail * found.f_frsize / 2**20:.0f} MiB are free there)"
    return said
