"""DLRover's flash checkpoint for DDP: local rank 0 copies into memory that its agent owns.

Runs in DLRover's environment. With $BENCH_DURABLE each save also goes to storage, which is complete
when the tracker file names its step.
"""

import os
from typing import Any

import torch
from dlrover.trainer.torch.flash_checkpoint.checkpointer import (  # type: ignore[import-not-found]
    StorageType,
)
from dlrover.trainer.torch.flash_checkpoint.ddp import (  # type: ignore[import-not-found]
    DdpCheckpointer,
)
from to_storage import StorageSaver  # type: ignore[import-not-found]

_TRACKER = "dlrover_latest.txt"


class Saver(StorageSaver):  # type: ignore[misc]
    """Saves and restores the way its guide shows."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        super().__init__(model, optimizer, every)
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

    def _save(self, steps: int) -> None:
        self._checkpointer.save_checkpoint(steps, self._state(steps), storage_type=self._kind)
        if self._kind is StorageType.DISK:
            self._ordered = str(steps)

    def busy(self) -> bool:
        if not self._ordered:
            return False
        tracker = self._folder / _TRACKER
        if tracker.exists() and tracker.read_text().strip() == self._ordered:
            self._ordered = ""
        return bool(self._ordered)
