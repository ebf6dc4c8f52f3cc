"""Base class of the savers that write the state of model and optimizer to $BENCH_STORAGE.

Imports only torch and the standard library: it is imported in every system's environment. There it
is a top-level module, since this folder is on the path; a type checker, which sees the folder as
part of the bench, does not find it by that name.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch


class StorageSaver(ABC):
    """Saves every ``every`` steps; restores nothing unless a subclass overrides `restore`."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        self._model, self._optimizer, self._every = model, optimizer, every
        self._folder = Path(os.environ["BENCH_STORAGE"])
        self._folder.mkdir(parents=True, exist_ok=True)

    def restore(self) -> int:
        """Restore nothing: only saving is measured."""
        return 0

    def after_step(self, step: int) -> None:
        if (step + 1) % self._every == 0:
            self._save(step + 1)

    def busy(self) -> bool:
        """Whether a save is still in progress after its call has returned."""
        return False

    @abstractmethod
    def _save(self, steps: int) -> None:
        """Save the state after this many steps."""

    def _state(self, steps: int) -> dict[str, Any]:
        model, optimizer = self._model.state_dict(), self._optimizer.state_dict()
        return {"model": model, "optimizer": optimizer, "step": steps}
