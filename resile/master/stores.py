"""Where a master keeps its records: two methods, so that any database will do.

StoreError
├── StoreUnusable     it cannot be opened or written: the user has to do something
├── StoreOfOtherJob   it holds a job that is not over, and not the one that was asked for
└── StoreTaken        another master holds it, or took it over: this one has to go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class StoreError(Exception):
    """Base of all errors of a store."""


class StoreUnusable(StoreError):
    """The store cannot be opened, read or written."""


class StoreOfOtherJob(StoreError):
    """The store holds another job that is not over: only a person can say whether to forget it."""


class StoreTaken(StoreError):
    """Another master has the store."""


class Store(Protocol):
    """Keys and values, changed together or not at all, with one owner at a time."""

    async def load(self) -> dict[str, bytes]:
        """Take the store for this master and return all it holds."""

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """Keep all ``changes`` (None: forget the key) before returning, or raise."""

    async def close(self) -> None:
        """Give the store back; what it holds stays."""

    async def erase(self) -> None:
        """Forget everything: the job is over and seen to be over."""

    @property
    def how_to_forget(self) -> str:
        """What a person does to have everything forgotten, to be read after 'to forget it,'."""
