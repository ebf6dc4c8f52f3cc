"""How fast a peer may speak: a bucket of messages that fills again with time."""

from __future__ import annotations

MESSAGES_PER_SECOND = 200.0
"""An agent says one to ten things a second."""

BURST = 1000
"""What may come at once: everything that an honest peer said while the master was too busy to
read, and as many as a master handles in ten milliseconds."""


class SpeechRate:
    """Counts one peer's messages. ``now`` is any clock that does not go back."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._counted_at = now

    def allows(self, now: float) -> bool:
        """Count one message; False when the peer has said too much."""
        refill = (now - self._counted_at) * MESSAGES_PER_SECOND
        self._left = min(float(BURST), self._left + refill) - 1
        self._counted_at = now
        return self._left >= 0
