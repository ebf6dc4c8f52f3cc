"""The last few pieces of a file that were unpacked: neighbours are read from the same piece."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Recent"]

T = TypeVar("T")


class Recent(Generic[T]):
    """The ``capacity`` pieces that were asked for last; a copy in another process is empty."""

    def __init__(self, make: Callable[[int], T], *, capacity: int) -> None:
        self._make = make
        self._capacity = capacity
        self._kept: OrderedDict[int, T] = OrderedDict()

    def __getitem__(self, number: int) -> T:
        """A piece, unpacked now if it is not kept."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        piece = self._kept[number] = self._make(number)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return piece

    def __getstate__(self) -> tuple[Callable[[int], T], int]:
        return self._make, self._capacity

    def __setstate__(self, state: tuple[Callable[[int], T], int]) -> None:
        self._make, self._capacity = state
        self._kept = OrderedDict()
