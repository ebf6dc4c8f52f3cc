"""A temporary folder for one agent's files, removed by it or, if it was killed, by the next agent.

A folder is in use while it is locked; the kernel releases the lock when its holder dies. Process
ids would not work: containers that share a temporary directory count their processes separately,
and each would take the other's folder for a dead agent's.

All folders of a user are in one that only this user can write. It is locked while a folder is
created or cleaned up, so that none is removed between its creation and its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TemporaryFolder"]

_PREFIX = "agent-"
"""Folders with other names are not cleaned up."""

_TRIES = 100
"""How often the parent folder may be removed by an exiting agent while it is being entered."""


@dataclass(frozen=True)
class TemporaryFolder:
    """One agent's folder."""

    path: Path
    _lock: int | None = None
    """A locked descriptor of the folder; None where folders cannot be locked."""

    @classmethod
    def make(cls) -> TemporaryFolder:
        """Create a folder below the system's temporary directory; raises OSError. Folders of agents
        that were killed are removed."""
        ours = Path(tempfile.gettempdir()) / f"resile-{os.getuid()}"
        for _ in range(_TRIES):
            ours.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(ours):
                break
            with _entered(ours) as entered:
                if entered:
                    _remove_dead(ours)
                    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=ours))
                    return cls(path, _locked(path))
        return cls(Path(tempfile.mkdtemp(prefix="resile-")))

    def remove(self) -> None:
        """Remove the folder, and its parent if this was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is None:
            return
        os.close(self._lock)
        with _entered(self.path.parent) as entered, contextlib.suppress(OSError):
            if entered:
                self.path.parent.rmdir()


@contextlib.contextmanager
def _entered(folder: Path) -> Iterator[bool]:
    """Lock a folder; False if it was removed meanwhile, or cannot be locked."""
    descriptor = None
    try:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor is not None and _is_at(folder, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder; None if it is locked already or cannot be locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_dead(ours: Path) -> None:
    for folder in ours.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _is_private(folder: Path) -> bool:
    """Whether only this user can have created the folder. Anybody can guess the name of a temporary
    folder, and with a link in its place we would clean up elsewhere."""
    found = folder.lstat()
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others
