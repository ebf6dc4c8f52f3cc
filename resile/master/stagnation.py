"""Detection of rounds that break repeatedly through lost nodes, without progress.

A lost node costs none of the job's restarts, so a node that is lost, comes back and is lost again
could break rounds forever. Losses of nodes with the same name are counted until the job makes
progress: a step that was not reached before, or a round that lasted. Losses of different nodes do
not add up, since their number is limited.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["FREE_LOSSES", "LASTING", "Stagnation"]

FREE_LOSSES = 10
"""How often one node may break rounds without progress in between."""

LASTING = 60.0
"""Seconds after which a round counts as progress, also if its script reports no steps."""


class Stagnation:
    """Counts the losses of one group's nodes."""

    def __init__(self) -> None:
        self._losses: Counter[str] = Counter()
        self._furthest = -1
        self._started = 0.0

    def round_starts(self, now: float) -> None:
        """Workers train from now on."""
        self._started = now

    def reported(self, step: int) -> None:
        """A node's workers have reached a step."""
        if step > self._furthest:
            self._furthest = step
            self._losses.clear()

    def lost(self, name: str, now: float) -> bool:
        """Count a node that broke a running round; return whether that was once too often."""
        if now - self._started >= LASTING:
            self._losses.clear()
        self._losses[name] += 1
        return self._losses[name] >= FREE_LOSSES
