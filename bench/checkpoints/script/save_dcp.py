"""`torch.distributed.checkpoint.async_save` with its defaults: staged, then written by a thread."""

import shutil
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from to_storage import StorageSaver  # type: ignore[import-not-found]


class Saver(StorageSaver):  # type: ignore[misc]
    """Keeps the last two checkpoints, so that the disk does not fill."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, every: int
    ) -> None:
        super().__init__(model, optimizer, every)
        # In the default group its thread's collectives would mix with training's, and hang.
        self._group = dist.new_group(backend="gloo")
        self._writing: Future[Any] | None = None

    def _save(self, steps: int) -> None:
        folder = self._folder / str(steps)
        answer: Any = dcp.async_save(
            self._state(steps), checkpoint_id=folder, process_group=self._group
        )
        self._writing = answer

    def busy(self) -> bool:
        if self._writing is None:
            return False
        if not self._writing.done():
            return True
        self._writing.result()
        self._writing = None
        if dist.get_rank() == 0:
            for old in sorted(self._folder.iterdir(), key=lambda one: int(one.name))[:-2]:
                shutil.rmtree(old)
        return False
