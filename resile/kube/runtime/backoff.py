"""Exponential back-off with a bound and jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True)
class Backoff:
    """Delays that double from ``first`` to ``most`` seconds.

    Each delay is shortened by a random part, at most half: requests that failed together, because
    the API server was unavailable, would otherwise be retried together.
    """

    first: float
    most: float

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        doublings = min(max(failures, 1) - 1, 32)
        return min(self.first * 2.0**doublings, self.most) * random.uniform(0.5, 1.0)
