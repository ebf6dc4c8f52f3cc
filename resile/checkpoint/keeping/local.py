"""A keeper without an agent: this worker keeps its own snapshots, and has its own writer.

The memory dies with the worker, so there is nothing to restore from after a crash but storage; what
is gained is that saving costs one copy, and that a checkpoint on its way is written to its end by a
process that outlives the worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.checkpoint.keeping.holdings import Holdings
from resile.checkpoint.keeping.keeper import Keeper
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.checkpoint.keeping.messages import Answer, Hello, Request
from resile.checkpoint.writing import Carrier

__all__ = ["LocalKeeper"]


class LocalKeeper(SnapshotMemory):
    """Snapshots of one worker, in its own process. ``limit``: bytes they may take in all."""

    def __init__(self, worker: Hello, *, limit: int | None = None) -> None:
        super().__init__(worker)
        self._keeper = Keeper(Holdings(limit=limit), Carrier(outlives=True))
        self._keeper.new_round(worker.round)

    def close(self) -> None:
        """Give the memory back. The writer finishes alone."""
        self._close_pairs()
        self._keeper.close()

    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        return self._keeper.answer(self.worker, request)
