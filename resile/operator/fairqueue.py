"""A queue of items by key in which the keys take turns.

However many items one key has, other keys wait for at most one of them and never lose one because
of it: each key has a bounded number of items, and when all keys together have too many, the longest
queue loses its newest item. Items of one key are handled in order, one at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class FairQueue(Generic[K, T]):
    """A bounded queue with round-robin between keys. Use it in one event loop only."""

    def __init__(self, *, each: int, total: int) -> None:
        """``each``: items that one key may have; ``total``: all keys together."""
        self._each = each
        self._total = total
        self._length = 0
        self._items: dict[K, deque[T]] = {}
        self._turns: asyncio.Queue[K] = asyncio.Queue()
        """Keys that have items, none of which is being handled or delayed."""

    def put(self, key: K, item: T) -> int:
        """Add an item. Returns how many items were dropped for it: 0 or 1."""
        items = self._items.get(key)
        if items is not None and len(items) >= self._each:
            return 1
        if items is None:
            items = self._items[key] = deque()
            self._turns.put_nowait(key)
        items.append(item)
        self._length += 1
        return self._shorten() if self._length > self._total else 0

    async def take(self) -> tuple[K, T]:
        """Return the next item. Its key is skipped until :meth:`done` or :meth:`put_off`."""
        while True:
            key = await self._turns.get()
            items = self._items[key]
            if items:
                self._length -= 1
                return key, items.popleft()
            del self._items[key]

    def done(self, key: K) -> None:
        """Mark the item that was taken from ``key`` as handled."""
        if self._items[key]:
            self._turns.put_nowait(key)
        else:
            del self._items[key]

    def put_off(self, key: K, item: T, seconds: float) -> None:
        """Requeue the item that was taken after a delay, ahead of the others of its key."""
        self._items[key].appendleft(item)
        self._length += 1
        asyncio.get_running_loop().call_later(seconds, self._turns.put_nowait, key)

    def _shorten(self) -> int:
        longest = max(self._items.values(), key=len)
        longest.pop()
        self._length -= 1
        return 1
