"""The interface of a master's store: keys and values, so that any database can implement it.

StoreError
├── StoreUnusable     it cannot be opened or written: the user has to act
├── StoreOfOtherJob   it holds another job, which is not over
└── StoreTaken        another master has it, or took it over: this one has to exit
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class StoreError(Exception):
    """Base of all errors of a store."""


class StoreUnusable(StoreError):
    """The store cannot be opened, read or written."""


class StoreOfOtherJob(StoreError):
    """The store holds another job that is not over: only a person can decide to discard it."""


class StoreTaken(StoreError):
    """Another master has the store."""


class Store(Protocol):
    """Keys and values, changed together or not at all, with one owner at a time."""

    async def load(self) -> dict[str, bytes]:
        """Take the store for this master and return all it holds."""

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """Write all ``changes`` (None: delete the key) before returning, or raise."""

    async def close(self) -> None:
        """Release the store; its records stay."""

    async def erase(self) -> None:
        """Delete all records: the job is over, and its agents know."""

    @property
    def how_to_discard(self) -> str:
        """How a person discards all records, as the end of a sentence: 'to discard it, ...'."""
