"""The last reported progress of a group, shown also after the nodes that reported it have left."""

from __future__ import annotations

from dataclasses import dataclass, field

from resile.job.throughput import Throughput
from resile.wire.messages import Progress, WorkersNow

__all__ = ["GroupProgress"]

SPEED_WINDOW = 10.0
"""Seconds over which steps are counted: long enough for one step a second."""

MAX_NODES = 200
"""Nodes whose failure counts are kept after they left; more than a person reads."""


@dataclass
class GroupProgress:
    """The progress and speed of a group's training, and the failures on each node."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    resumed: int | None = None
    source: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    """By the node's name; only nodes on which workers failed."""

    speed: float | None = None
    """Steps a second of the round's first node."""

    _pace: Throughput = field(default_factory=lambda: Throughput(SPEED_WINDOW))

    def hear(self, node: str, progress: Progress | None, workers: WorkersNow | None) -> None:
        """Take a node's heartbeat."""
        if progress is not None:
            self.step = self.step if progress.step is None else progress.step
            self.total = self.total if progress.total is None else progress.total
            self.loss = self.loss if progress.loss is None else progress.loss
            self.resumed = self.resumed if progress.resumed is None else progress.resumed
            self.source = progress.source or self.source
        if workers is not None and workers.failures:
            self.failures.pop(node, None)
            self.failures[node] = workers.failures
            while len(self.failures) > MAX_NODES:
                self.failures.pop(next(iter(self.failures)))

    def pace(self, step: int | None, now: float) -> None:
        """Take the step of the round's first node; all nodes are at about the same."""
        self.speed = self._pace.at(step, now)
