"""How long to wait before the next try: longer each time, up to a bound, and never in step."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True)
class Backoff:
    """Doubles from ``first`` to ``most`` seconds.

    Of each delay a random part, at most half, is left out: all that failed together, because the
    API server was away, would otherwise come back together.
    """

    first: float
    most: float

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        doublings = min(max(failures, 1) - 1, 32)
        return min(self.first * 2.0**doublings, self.most) * random.uniform(0.5, 1.0)
