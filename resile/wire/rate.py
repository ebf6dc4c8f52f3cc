"""How fast a peer may speak: a bucket of messages that fills again with time."""

from __future__ import annotations

MESSAGES_PER_SECOND = 200.0
"""An agent says one to ten things a second."""

BURST = 1000
"""What may come at once: everything that an honest peer said while the master was too busy to
read, and as many as a master handles in ten milliseconds."""


class SpeechRate:
    """Counts one peer's messages. ``now`` is any clock that does not go back."""

    def __init__(
        self, now: float, *, per_second: float = MESSAGES_PER_SECOND, burst: int = BURST
    ) -> None:
        self.per_second = per_second
        self._burst = float(burst)
        self._left = self._burst
        self._counted_at = now

    def allows(self, now: float) -> bool:
        """Count one message; False when the peer has said too much."""
        refill = (now - self._counted_at) * self.per_second
        self._left = min(self._burst, self._left + refill) - 1
        self._counted_at = now
        return self._left >= 0
