"""Rounds that break again and again through lost nodes, and get nowhere.

A lost node costs none of the job's restarts, so a node that is lost, comes back and is lost again
could break rounds for ever. Each loss of a node by the same name counts until the job gets further:
a step that nobody had reported before, or a round that lasted. Losses of different nodes do not add
up, since there are only so many of them.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["FREE_LOSSES", "LASTING", "Stagnation"]

FREE_LOSSES = 10
"""So often one node may break rounds without anything gained in between."""

LASTING = 60.0
"""Seconds after which a round has been of use, also one whose script reports no steps."""


class Stagnation:
    """One job's."""

    def __init__(self) -> None:
        self._losses: Counter[str] = Counter()
        self._furthest = -1
        self._started = 0.0

    def round_starts(self, now: float) -> None:
        """Workers train from now on."""
        self._started = now

    def reported(self, step: int) -> None:
        """A node's workers have come to a step."""
        if step > self._furthest:
            self._furthest = step
            self._losses.clear()

    def lost(self, name: str, now: float) -> bool:
        """A node broke a round that ran; whether that was once too often."""
        if now - self._started >= LASTING:
            self._losses.clear()
        self._losses[name] += 1
        return self._losses[name] >= FREE_LOSSES
