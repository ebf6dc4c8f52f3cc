"""The default store: one SQLite file in WAL mode.

A commit is a transaction of a few rows, and survives the death of the process at any point.
``synchronous=NORMAL`` does not wait for the disk: a power cut may lose the last moments, never the
consistency. A lock file keeps a second master out; the kernel releases it when its holder dies, so
there is nothing to clean up.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from resile.master.store.base import StoreTaken, StoreUnusable


class SqliteStore:
    """Records in ``path``; ``path.lock`` beside it names the owner."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._lock: int | None = None

    async def load(self) -> dict[str, bytes]:
        """See :class:`resile.master.store.base.Store`."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._take_lock()
            self._database = sqlite3.connect(self._path, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
            )
            rows = self._database.execute("SELECT key, value FROM records").fetchall()
        except (OSError, sqlite3.Error) as error:
            raise StoreUnusable(f"the store {self._path} cannot be used: {error}") from None
        return dict(rows)

    def _take_lock(self) -> None:
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            raise StoreTaken(
                f"the store {self._path} is in use by a running master (pid {owner})"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """See :class:`resile.master.store.base.Store`."""
        database = self._opened()
        puts = [(key, value) for key, value in changes.items() if value is not None]
        deletes = [(key,) for key, value in changes.items() if value is None]
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("REPLACE INTO records VALUES (?, ?)", puts)
            database.executemany("DELETE FROM records WHERE key = ?", deletes)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreUnusable(f"the store {self._path} cannot be written: {error}") from None

    async def close(self) -> None:
        """See :class:`resile.master.store.base.Store`."""
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def erase(self) -> None:
        """See :class:`resile.master.store.base.Store`."""
        try:
            self._opened().execute("DELETE FROM records")
        except sqlite3.Error as error:
            raise StoreUnusable(f"the store {self._path} cannot be written: {error}") from None

    @property
    def how_to_discard(self) -> str:
        """See :class:`resile.master.store.base.Store`."""
        return f"end its processes and remove {self._path}"

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            raise StoreUnusable(f"the store {self._path} is not open")
        return self._database
