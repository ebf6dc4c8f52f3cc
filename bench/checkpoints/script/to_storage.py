"""What the savers share that write the state of model and optimizer to $BENCH_STORAGE.

Imports torch and the standard library alone: it is imported in every system's environment. There
it is a module of its own, since this folder is on the path; a type checker, which sees the folder
as part of the bench, does not find it by that name.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch


class StorageSaver(ABC):
    """Saves after every so many steps, and restores nothing unless it says how."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        self._model, self._optimizer, self._every = model, optimizer, every
        self._folder = Path(os.environ["BENCH_STORAGE"])
        self._folder.mkdir(parents=True, exist_ok=True)

    def restore(self) -> int:
        """Only its saving is measured."""
        return 0

    def after_step(self, step: int) -> None:
        if (step + 1) % self._every == 0:
            self._save(step + 1)

    def busy(self) -> bool:
        """Whether a save goes on after its call has returned."""
        return False

    @abstractmethod
    def _save(self, steps: int) -> None:
        """Save what so many steps came to."""

    def _state(self, steps: int) -> dict[str, Any]:
        model, optimizer = self._model.state_dict(), self._optimizer.state_dict()
        return {"model": model, "optimizer": optimizer, "step": steps}
