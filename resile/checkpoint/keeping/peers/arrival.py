"""A part that is being received from another node into this one's memory.

A restoring worker need not wait for the last byte: it can copy what is here while the rest is being
received. So a thread receives the bytes, and each worker waits for as many as it needs.
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
    """A fetch in progress. ``fetch`` calls ``begin`` once, ``came`` as bytes arrive, and returns
    when all have; its exception is raised in every waiting caller."""

    def __init__(self, fetch: Callable[[Arrival], None]) -> None:
        self.number = next(_numbers)
        """Unique: tells this fetch from an earlier one of the same part, in other memory."""
        self._slot = -1
        self._size = 0
        self._come = 0
        self._error: CheckpointError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, args=(fetch,), name="resile-fetch", daemon=True).start()

    @property
    def failed(self) -> bool:
        """Whether the fetch failed."""
        return self._error is not None

    def begin(self, slot: int, size: int) -> None:
        """The bytes will be written to ``slot``, which the caller still owns."""
        with self._changed:
            if not self.failed:
                self._slot, self._size = same_memory(slot), size
                self._changed.notify_all()

    def came(self, count: int) -> None:
        """``count`` bytes are here."""
        with self._changed:
            self._come = count
            self._changed.notify_all()

    def opened(self) -> tuple[int, int]:
        """Wait for the start; returns a descriptor of the memory, which the caller must close, and
        the part's size. Raises the error if the fetch failed before its start."""
        with self._changed:
            self._changed.wait_for(lambda: self._slot >= 0 or self.failed)
            if self._slot < 0:
                assert self._error is not None
                raise self._error
            return same_memory(self._slot), self._size

    def wait(self, until: int) -> int:
        """Wait for at least ``until`` bytes; returns how many are here. Raises the fetch's
        error."""
        with self._changed:
            self._changed.wait_for(lambda: self._come >= until or self.failed)
            if self._come < until and self._error is not None:
                raise self._error
            return self._come

    def forget(self) -> None:
        """Cancel and close the descriptor; callers of ``opened`` keep their own."""
        with self._changed:
            if self._slot >= 0:
                os.close(self._slot)
                self._slot = -1
            self._error = self._error or PeerTrouble("the fetch was cancelled")
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
