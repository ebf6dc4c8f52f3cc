"""`torch.save` by rank 0 to a file, without a sync, while training waits."""

import torch
import torch.distributed as dist
from to_storage import StorageSaver  # type: ignore[import-not-found]


class Saver(StorageSaver):  # type: ignore[misc]
    """Writes the whole state in rank 0."""

    def _save(self, steps: int) -> None:
        if dist.get_rank() != 0:
            return
        partial = self._folder / "partial.pt"
        torch.save(self._state(steps), partial)
        partial.replace(self._folder / "latest.pt")
