"""A part on its way from another node into this one's memory.

Who restores need not wait for the last byte: what has come can be copied while the rest comes. So
the bytes are taken in by a thread, and everybody who wants them waits for as many as it needs.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable

from resile.checkpoint.errors import CheckpointError
from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.memory import same_memory

__all__ = ["Arrival"]

log = logging.getLogger("resile.checkpoint")

_numbers = itertools.count(1)


class Arrival:
    """``fetch`` gets the part: it calls ``begin`` once, ``came`` as bytes come, and returns when
    all have; what it raises is raised to everybody who waits."""

    def __init__(self, fetch: Callable[[Arrival], None]) -> None:
        self.number = next(_numbers)
        """Tells this arrival from an earlier one of the same part, which lies elsewhere."""
        self._slot = -1
        self._size = 0
        self._come = 0
        self._error: CheckpointError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, args=(fetch,), name="resile-fetch", daemon=True).start()

    @property
    def failed(self) -> bool:
        """Whether nothing more will come although something is missing."""
        return self._error is not None

    def begin(self, slot: int, size: int) -> None:
        """The bytes begin to come into ``slot``, which stays the caller's."""
        with self._changed:
            if not self.failed:
                self._slot, self._size = same_memory(slot), size
                self._changed.notify_all()

    def came(self, count: int) -> None:
        """So many are there."""
        with self._changed:
            self._come = count
            self._changed.notify_all()

    def opened(self) -> tuple[int, int]:
        """A descriptor of the memory they come into, the caller's to close, and how many there will
        be; raises what went wrong before the first came."""
        with self._changed:
            self._changed.wait_for(lambda: self._slot >= 0 or self.failed)
            if self._slot < 0:
                assert self._error is not None
                raise self._error
            return same_memory(self._slot), self._size

    def wait(self, until: int) -> int:
        """How many bytes are there, at least ``until``; raises what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: self._come >= until or self.failed)
            if self._come < until and self._error is not None:
                raise self._error
            return self._come

    def forget(self) -> None:
        """Give the descriptor back; who has opened it keeps its own."""
        with self._changed:
            if self._slot >= 0:
                os.close(self._slot)
                self._slot = -1
            self._error = self._error or PeerTrouble("it is not wanted any more")
            self._changed.notify_all()

    def _run(self, fetch: Callable[[Arrival], None]) -> None:
        error: CheckpointError | None = None
        try:
            fetch(self)
        except CheckpointError as problem:
            error = problem
        except Exception as problem:
            log.exception("a part could not be fetched")
            error = PeerTrouble(f"{type(problem).__name__}: {problem}")
        if error is not None:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()
