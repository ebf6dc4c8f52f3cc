"""A simple implementation of finding the checkpoint to restore, as an oracle for tests."""

from __future__ import annotations

from collections.abc import Callable

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog
from resile.checkpoint.errors import NoCheckpoint, NotOnStorage


def newest_whole(
    catalog: CheckpointCatalog, *, tell: Callable[[str], None] = lambda _: None
) -> Checkpoint:
    """The newest intact checkpoint that is not of a superseded round.

    ``tell`` is called for manifests and claims that cannot be read.
    """
    try:
        fence = catalog.fence(tell=tell)
        for checkpoint in catalog.checkpoints(tell=tell):
            superseded = fence.superseded(checkpoint.attempt, checkpoint.step)
            if not superseded and not catalog.damages(checkpoint):
                return checkpoint
    except NotOnStorage:
        raise NoCheckpoint(f"there is no folder {catalog.storage.address}") from None
    raise NoCheckpoint(f"there is no whole checkpoint in {catalog.storage.address}")
