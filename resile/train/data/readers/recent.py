"""The last few pieces of a file that were unpacked: neighbours are read from the same piece."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

__all__ = ["Recent"]

T = TypeVar("T")


class Recent(Generic[T]):
    """The ``capacity`` pieces that were asked for last; a copy in another process is empty."""

    def __init__(self, make: Callable[[int], T], *, capacity: int) -> None:
        self.__setstate__((make, capacity))

    def __getitem__(self, number: int) -> T:
        """A piece, unpacked now if it is not kept."""
        return self._kept(number)

    def __getstate__(self) -> tuple[Callable[[int], T], int]:
        return self._make, self._capacity

    def __setstate__(self, state: tuple[Callable[[int], T], int]) -> None:
        self._make, self._capacity = state
        self._kept = lru_cache(maxsize=self._capacity)(self._make)
