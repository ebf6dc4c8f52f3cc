"""Snapshots without an agent: the worker holds its own, and has its own writer process.

The memory dies with the worker, so after a crash only storage is left to restore from. The benefit:
saving costs one copy, and a checkpoint in progress is finished by a process that outlives the
worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.checkpoint.keeping.holdings import Holdings
from resile.checkpoint.keeping.keeper import Keeper
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.checkpoint.keeping.messages import Answer, Request, WorkerHello
from resile.checkpoint.writing import Carrier

__all__ = ["LocalKeeper"]


class LocalKeeper(SnapshotMemory):
    """Snapshots of one worker, in its own process. ``limit``: maximum bytes of all of them."""

    def __init__(self, worker: WorkerHello, *, limit: int | None = None) -> None:
        super().__init__(worker)
        self._keeper = Keeper(Holdings(limit=limit), Carrier(outlives=True))
        self._keeper.new_round(worker.round)

    def close(self) -> None:
        """Release the memory. The writer process finishes alone."""
        self._close_pairs()
        self._keeper.close()

    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        return self._keeper.answer(self.worker, request)
