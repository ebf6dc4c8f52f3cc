"""Items that wait to be handled, each under a key, with the keys taking turns.

However many items one key has, others wait for at most one of them, and never lose one because of
it: a key keeps a bounded number of items, and where all keys together have too many, the one with
the most loses its newest. Items of one key are handled in order, one at a time.
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
    """Lives in one event loop."""

    def __init__(self, *, each: int, total: int) -> None:
        """``each``: items that one key may have; ``total``: all keys together."""
        self._each = each
        self._total = total
        self._length = 0
        self._items: dict[K, deque[T]] = {}
        self._turns: asyncio.Queue[K] = asyncio.Queue()
        """Keys that have items, and none of them in hand or put off."""

    def put(self, key: K, item: T) -> int:
        """Add an item. Returns how many were dropped because of it: 0 or 1."""
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
        """The next item. Its key has no other turn until :meth:`done` or :meth:`put_off`."""
        while True:
            key = await self._turns.get()
            items = self._items[key]
            if items:
                self._length -= 1
                return key, items.popleft()
            del self._items[key]

    def done(self, key: K) -> None:
        """The item that was taken of it is handled."""
        if self._items[key]:
            self._turns.put_nowait(key)
        else:
            del self._items[key]

    def put_off(self, key: K, item: T, seconds: float) -> None:
        """The item that was taken is to come again, before the others of its key."""
        self._items[key].appendleft(item)
        self._length += 1
        asyncio.get_running_loop().call_later(seconds, self._turns.put_nowait, key)

    def _shorten(self) -> int:
        longest = max(self._items.values(), key=len)
        longest.pop()
        self._length -= 1
        return 1
