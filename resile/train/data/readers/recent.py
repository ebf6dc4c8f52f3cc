"""Cache of the last decoded pieces of a file: neighbouring records are in the same piece."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

__all__ = ["Recent"]

T = TypeVar("T")


class Recent(Generic[T]):
    """LRU cache of ``capacity`` pieces; a pickled copy starts empty."""

    def __init__(self, make: Callable[[int], T], *, capacity: int) -> None:
        self.__setstate__((make, capacity))

    def __getitem__(self, number: int) -> T:
        """Return a piece, decoding it if it is not cached."""
        return self._kept(number)

    def __getstate__(self) -> tuple[Callable[[int], T], int]:
        return self._make, self._capacity

    def __setstate__(self, state: tuple[Callable[[int], T], int]) -> None:
        self._make, self._capacity = state
        self._kept = lru_cache(maxsize=self._capacity)(self._make)
