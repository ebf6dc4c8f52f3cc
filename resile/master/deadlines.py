"""Deadlines of a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Deadlines:
    """Independent deadlines; None while one is not set. See ``job/elasticity.py`` for each."""

    last_call: float | None = None
    join: float | None = None
    settle: float | None = None
    forming: float | None = None

    def pending(self) -> list[float]:
        """Return all that are set."""
        return [deadline for deadline in vars(self).values() if deadline is not None]


def is_over(deadline: float | None, now: float) -> bool:
    """Whether a deadline was set and has passed."""
    return deadline is not None and deadline <= now
