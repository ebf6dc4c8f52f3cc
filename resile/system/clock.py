"""A clock that stands still while its process is paused.

A process is paused by Ctrl-Z, with its container, or with its virtual machine. In that time it
receives nothing and sends nothing, so silence proves nothing, and no deadline should pass. The
clock has to be read at least every :data:`PULSE`; the excess of a longer gap is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["PULSE", "RunningClock"]

PULSE = 0.5
"""Seconds between two readings, at most."""

LATENESS = 0.5
"""Seconds that a reading may be late on a busy machine before it counts as a pause."""


class RunningClock:
    """Seconds in which this process ran, from an arbitrary start."""

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        """``read``: the underlying clock."""
        self._read = read
        self._last = read()
        self.paused = 0.0
        """Seconds that were left out so far."""

    def now(self) -> float:
        """Return the time; call it often."""
        real = self._read()
        gap, self._last = real - self._last, real
        if gap > PULSE + LATENESS:
            self.paused += gap - PULSE
        return real - self.paused
