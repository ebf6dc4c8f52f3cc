"""The speed of a training, computed from its reported steps. Pure."""

from __future__ import annotations

from collections import deque

__all__ = ["Throughput", "rate_in", "speed_text"]


class Throughput:
    """Steps per second over a window; a lower step (after a restore) resets it."""

    def __init__(self, window: float = 5.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, step: int | None, now: float) -> float | None:
        """Add the step at a time; return the rate, None while there is none."""
        if step is None:
            return None
        if self._seen and step < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window:
            self._seen.popleft()
        (then, first), elapsed = self._seen[0], now - self._seen[0][0]
        return (step - first) / elapsed if elapsed > self._window / 5 and now > then else None


def speed_text(rate: float | None) -> str:
    """Return a rate with its unit; empty if there is none."""
    return f"{rate:.3g} steps/s" if rate else ""


def rate_in(text: str) -> float | None:
    """Parse the text of :func:`speed_text`; None if there is no rate."""
    try:
        return float(text.partition(" ")[0]) or None
    except ValueError:
        return None
