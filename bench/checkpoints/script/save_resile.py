"""Resile's Checkpointer, as a user would write it."""

import os

import torch

from resile import Checkpointer


class Saver:
    """Snapshots in memory; checkpoints too, with $BENCH_DURABLE."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        storage = os.environ["BENCH_STORAGE"] if os.environ.get("BENCH_DURABLE") else None
        self._durable = storage is not None
        self._checkpointer = Checkpointer(storage, every=every, keep=2)
        self._state = {"model": model, "optimizer": optimizer, "step": 0}

    def restore(self) -> int:
        return self._checkpointer.restore(self._state)

    def after_step(self, step: int) -> None:
        self._checkpointer.step(step, self._state)

    def busy(self) -> bool:
        return self._durable and bool(self._checkpointer.status().writing)
