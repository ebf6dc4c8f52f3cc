"""The page of shared memory through which an agent asks its workers to save for a handover.

The agent writes the handover's number to it, the workers read it after every step, at no cost.
*Asked* (phase PREPARE): the workers will save a step together with all others and look for its
number in the round's store. *Choose* (phase CHOOSE): all workers of the job have been asked, so the
worker of rank 0 may choose the step. *Until*: a deadline after which the request is void, so that
holding workers continue even if no master ever ends the handover.
"""

from __future__ import annotations

import os
import struct
import time

from resile.snapshots.memory import PAGE, create, grow, map_memory

__all__ = ["HandoverTracker", "HandoverPage"]

_WORD = struct.Struct("<q")
_NOBODY = 0
_ASKED, _CHOOSE, _ROUND, _UNTIL = 0, 8, 16, 24
"""Offsets of aligned words: a processor reads and writes each atomically."""


class HandoverPage:
    """The mapped page; created by the snapshot server, read by workers."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Create a page, or map the one behind ``descriptor``, which is then closed."""
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

    def ask(self, number: int, *, round: int, timeout: float) -> None:
        """Ask the workers of a round to save for handover ``number``, for ``timeout`` seconds."""
        self._write(_ROUND, round)
        # The monotonic clock is the same in all processes of a machine.
        self._write(_UNTIL, time.monotonic_ns() + int(timeout * 1e9))
        self._write(_ASKED, number)

    def let_choose(self, number: int) -> None:
        """Allow rank 0 to choose the step: all workers of the job have been asked."""
        self._write(_CHOOSE, number)

    def clear(self) -> None:
        """Withdraw the request."""
        self._write(_CHOOSE, _NOBODY)
        self._write(_ASKED, _NOBODY)

    def asked(self, round: int) -> int:
        """The number of the handover that this round's workers must save for; 0 for none."""
        number = self._read(_ASKED)
        if number == _NOBODY or self._read(_ROUND) != round:
            return _NOBODY
        return number if time.monotonic_ns() < self._read(_UNTIL) else _NOBODY

    def may_choose(self, number: int) -> bool:
        """Whether rank 0 may choose the step of this handover."""
        return self._read(_CHOOSE) == number

    def _write(self, place: int, value: int) -> None:
        _WORD.pack_into(self._page, place, value)

    def _read(self, place: int) -> int:
        found: int = _WORD.unpack_from(self._page, place)[0]
        return found

    def close(self) -> None:
        """Release a page that was created here."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HandoverTracker:
    """Tracks the workers of a round that watch the page, and the steps they hold. Not
    thread-safe."""

    def __init__(self) -> None:
        self.page = HandoverPage()
        self._round = 0
        self._number = 0
        self._watching: set[int] = set()
        self._holding: dict[int, int] = {}
        self._nproc = 0

    def new_round(self, number: int) -> None:
        """Forget the workers of older rounds."""
        if number > self._round:
            self._round = number
            self._watching, self._nproc = set(), 0
            self.call_off()

    def watches(self, local_rank: int, *, nproc: int) -> None:
        """A worker will read the page after every step."""
        self._watching.add(local_rank)
        self._nproc = nproc

    def ask(self, number: int, *, timeout: float) -> None:
        """Ask the workers to save for a handover; repeating a request does not make them save
        twice."""
        if number != self._number:
            self.call_off()
            self._number = number
        self.page.ask(number, round=self._round, timeout=timeout)

    def call_off(self) -> None:
        """Cancel the handover: holding workers continue."""
        self._number, self._holding = 0, {}
        self.page.clear()

    def holds(self, local_rank: int, step: int, *, handover: int) -> None:
        """A worker has saved a step for a handover and holds."""
        if handover == self._number:
            self._holding[local_rank] = step

    @property
    def able(self) -> bool:
        """Whether all workers of the node watch the page."""
        return 0 < self._nproc == len(self._watching)

    @property
    def held(self) -> int | None:
        """The step that all workers of the node hold; None if they do not yet."""
        steps = set(self._holding.values())
        whole = self.able and len(self._holding) == self._nproc and len(steps) == 1
        return steps.pop() if whole else None
