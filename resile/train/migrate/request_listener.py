"""Distribution of a migration request to all workers before any of them acts on it.

Only a thread of rank 0 reads the signal file, so no two workers can read different words. It passes
the request to the others through the round's store; their threads acknowledge it. When all have,
rank 0 may choose the step. Without a request a step costs the training loop the read of one
variable.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from resile.checkpoint.errors import CheckpointError
from resile.train.checkpoint.round_channel import RoundChannel

__all__ = ["RequestListener"]

log = logging.getLogger("resile.train")

_FAREWELL = 10.0
"""Seconds for the thread's last store access. An interpreter that exits while a thread is inside
one is aborted, so this is well above what a busy machine needs."""

_ASKED = "asked"
_STEP = "step"


class RequestListener:
    """A worker's part in the next migration request."""

    def __init__(
        self,
        channel: RoundChannel,
        decisions: RoundChannel,
        *,
        is_requested: Callable[[], bool],
        interval: float,
    ) -> None:
        """``channel`` belongs to the thread, ``decisions`` to the training loop: the two never
        wait for each other. ``is_requested`` is called on rank 0 only."""
        self._channel = channel
        self._decisions = decisions
        self._is_requested = is_requested
        self._interval = interval
        self._asked = False
        self._everybody_heard = False
        self._chosen = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resile-migrator", daemon=True)

    def start(self) -> None:
        """Start listening in a background thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join(timeout=_FAREWELL)

    def is_asked(self) -> bool:
        """Return whether a save is requested; called in every step."""
        return self._asked

    def is_due(self, done: int) -> bool:
        """Return whether the step just done is the one to save.

        Rank 0 publishes the chosen step before the next step's collective, the others check after
        it: no worker can miss it.
        """
        if not self._asked:
            return False
        if self._decisions.has(_STEP):
            return self._decisions.get(_STEP, int) == done
        if self._everybody_heard and not self._chosen:
            self._chosen = True
            if self._decisions.place.world == 1:
                return True
            self._decisions.put(_STEP, done + 1)
        return False

    def _run(self) -> None:
        try:
            if self._decisions.place.rank == 0:
                self._ask()
            else:
                self._hear()
        except (OSError, RuntimeError, CheckpointError) as error:
            # The store is gone: so is rank 0, and with it the round. Or the volume is.
            log.info("no longer listening for migration: %s", error)

    def _ask(self) -> None:
        while not self._is_requested():
            if self._ended.wait(self._interval):
                return
        self._channel.put(_ASKED, True)
        self._asked = True
        waiting = set(range(1, self._channel.place.world))
        while waiting:
            waiting = {rank for rank in waiting if not self._channel.has(f"heard/{rank}")}
            if waiting and self._ended.wait(self._interval / 10):
                return
        self._everybody_heard = True

    def _hear(self) -> None:
        while not self._channel.has(_ASKED):
            if self._ended.wait(self._interval):
                return
        self._asked = True
        self._channel.put(f"heard/{self._channel.place.rank}", True)
