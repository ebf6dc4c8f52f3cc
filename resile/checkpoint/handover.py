"""A page of memory on which a node's workers are asked to save before a planned change.

The agent writes the round on it, the workers look at it after every step; that costs them nothing.
*Asked*: you will save a step together with all others, look for which. *Choose*: everybody has been
asked, so the worker of rank 0 may choose the step.
"""

from __future__ import annotations

import os
import struct

from resile.checkpoint.mapping import map_memory
from resile.checkpoint.memory import PAGE, create, grow

__all__ = ["HandoverDesk", "HandoverPage"]

_WORD = struct.Struct("<q")
_NOBODY = -1
_ASKED, _CHOOSE = 0, 8
"""Aligned words: a processor writes and reads each in one go."""


class HandoverPage:
    """The page, mapped; made by the keeper, shown to workers."""

    def __init__(self, descriptor: int | None = None) -> None:
        """A new page, or the one behind a descriptor, which is closed."""
        if descriptor is None:
            descriptor = create()
            grow(descriptor, PAGE)
            self.descriptor = descriptor
            self._page = map_memory(descriptor, writable=True)
            self.clear()
            return
        self.descriptor = -1
        self._page = map_memory(descriptor, writable=False)
        os.close(descriptor)

    def ask(self, round: int) -> None:
        """Ask the workers of a round."""
        self._write(_ASKED, round)

    def let_choose(self, round: int) -> None:
        """Everybody was asked: rank 0 may choose."""
        self._write(_CHOOSE, round)

    def clear(self) -> None:
        """Nobody is asked any more."""
        self._write(_CHOOSE, _NOBODY)
        self._write(_ASKED, _NOBODY)

    def is_asked(self, round: int) -> bool:
        """Whether the workers of this round are asked."""
        return self._read(_ASKED) == round

    def may_choose(self, round: int) -> bool:
        """Whether rank 0 may choose the step."""
        return self._read(_CHOOSE) == round

    def _write(self, place: int, round: int) -> None:
        _WORD.pack_into(self._page, place, round)

    def _read(self, place: int) -> int:
        found: int = _WORD.unpack_from(self._page, place)[0]
        return found

    def close(self) -> None:
        """Give a page that was made here back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HandoverDesk:
    """Which workers of the round look at the page, and which hold a step. Not thread-safe."""

    def __init__(self) -> None:
        self.page = HandoverPage()
        self._round = 0
        self._watching: set[int] = set()
        self._holding: dict[int, int] = {}
        self._nproc = 0

    def new_round(self, number: int) -> None:
        """Workers of older rounds are gone."""
        if number > self._round:
            self._round = number
            self._watching, self._holding, self._nproc = set(), {}, 0
            self.page.clear()

    def watches(self, local_rank: int, *, nproc: int) -> None:
        """A worker will look at the page after every step."""
        self._watching.add(local_rank)
        self._nproc = nproc

    def holds(self, local_rank: int, step: int) -> None:
        """A worker saved a step and waits."""
        self._holding[local_rank] = step

    @property
    def able(self) -> bool:
        """Whether all workers of the node look at the page."""
        return 0 < self._nproc == len(self._watching)

    @property
    def held(self) -> int | None:
        """The step that all workers of the node hold."""
        steps = set(self._holding.values())
        whole = self.able and len(self._holding) == self._nproc and len(steps) == 1
        return steps.pop() if whole else None
