"""A rate limit for messages of a peer: a token bucket."""

from __future__ import annotations

MESSAGES_PER_SECOND = 200.0
"""An agent sends one to ten messages a second."""

BURST = 1000
"""Messages that may come at once: all that a valid peer sent while the master was too busy to read;
a master handles as many in ten milliseconds."""


class SpeechRate:
    """Counts the messages of one peer. ``now`` is any monotonic clock."""

    def __init__(
        self, now: float, *, per_second: float = MESSAGES_PER_SECOND, burst: int = BURST
    ) -> None:
        self.per_second = per_second
        self._burst = float(burst)
        self._left = self._burst
        self._counted_at = now

    def allows(self, now: float) -> bool:
        """Count one message; False when the peer exceeds its rate."""
        refill = (now - self._counted_at) * self.per_second
        self._left = min(self._burst, self._left + refill) - 1
        self._counted_at = now
        return self._left >= 0
