"""What was last reported by anybody: it is shown also when those who reported it have gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from resile.wire.messages import Progress, WorkersNow

__all__ = ["Reported"]

MOST_NODES = 200
"""Nodes whose failures are remembered after they left; more than a person reads."""


@dataclass
class Reported:
    """How far the training was, and how often workers failed on which node."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    resumed: int | None = None
    source: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    """By the node's name; only those on which any failed."""

    def hear(self, node: str, progress: Progress | None, workers: WorkersNow | None) -> None:
        """A node told how it is."""
        if progress is not None:
            self.step = self.step if progress.step is None else progress.step
            self.total = self.total if progress.total is None else progress.total
            self.loss = self.loss if progress.loss is None else progress.loss
            self.resumed = self.resumed if progress.resumed is None else progress.resumed
            self.source = progress.source or self.source
        if workers is not None and workers.failures:
            self.failures.pop(node, None)
            self.failures[node] = workers.failures
            while len(self.failures) > MOST_NODES:
                self.failures.pop(next(iter(self.failures)))
