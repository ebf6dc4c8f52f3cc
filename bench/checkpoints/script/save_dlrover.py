"""DLRover's flash checkpoint for DDP: local rank 0 copies into memory that its agent owns.

Runs in DLRover's environment. With $BENCH_DURABLE each save also goes to storage, which is done
when the tracker file names its step.
"""

import os
from pathlib import Path
from typing import Any

import torch
from dlrover.trainer.torch.flash_checkpoint.checkpointer import (  # type: ignore[import-not-found]
    StorageType,
)
from dlrover.trainer.torch.flash_checkpoint.ddp import (  # type: ignore[import-not-found]
    DdpCheckpointer,
)

_TRACKER = "dlrover_latest.txt"


class Saver:
    """Saves and restores the way its guide shows."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        self._model, self._optimizer, self._every = model, optimizer, every
        self._folder = Path(os.environ["BENCH_STORAGE"])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._checkpointer = DdpCheckpointer(str(self._folder))
        self._kind = StorageType.DISK if os.environ.get("BENCH_DURABLE") else StorageType.MEMORY
        self._ordered = ""

    def restore(self) -> int:
        state: dict[str, Any] = self._checkpointer.load_checkpoint()
        if not state:
            return 0
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])

    def after_step(self, step: int) -> None:
        if (step + 1) % self._every:
            return
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}
        self._checkpointer.save_checkpoint(
            step + 1, {**state, "step": step + 1}, storage_type=self._kind
        )
        if self._kind is StorageType.DISK:
            self._ordered = str(step + 1)

    def busy(self) -> bool:
        if not self._ordered:
            return False
        tracker = self._folder / _TRACKER
        if tracker.exists() and tracker.read_text().strip() == self._ordered:
            self._ordered = ""
        return bool(self._ordered)
