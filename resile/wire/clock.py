"""A clock that stands still while its process does.

A process is stopped by Ctrl-Z, with its container, or with its virtual machine. In that time it
hears nothing and says nothing, so nobody's silence in it proves anything, and no deadline should
pass. The clock has to be read at least every :data:`PULSE`; what is missing after a longer gap was
not lived through, and is left out.
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
    """Seconds in which this process ran, from an arbitrary moment on."""

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        """Begins with what ``read`` says."""
        self._read = read
        self._last = read()
        self.paused = 0.0
        """Seconds that were left out so far."""

    def now(self) -> float:
        """The time; read it often."""
        real = self._read()
        gap, self._last = real - self._last, real
        if gap > PULSE + LATENESS:
            self.paused += gap - PULSE
        return real - self.paused
