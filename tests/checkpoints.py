"""The checkpoint that a restore may use, found the plain way: an oracle for what was written."""

from __future__ import annotations

from collections.abc import Callable

from resile.checkpoint.errors import NoCheckpoint, NotThere
from resile.checkpoint.shelf import Checkpoint, Shelf


def newest_whole(shelf: Shelf, *, tell: Callable[[str], None] = lambda _: None) -> Checkpoint:
    """The newest checkpoint of no superseded round, every byte of it as it was written.

    ``tell`` hears of manifests and claims that cannot be read.
    """
    try:
        fence = shelf.fence(tell=tell)
        for checkpoint in shelf.checkpoints(tell=tell):
            superseded = fence.superseded(checkpoint.attempt, checkpoint.step)
            if not superseded and not shelf.damages(checkpoint):
                return checkpoint
    except NotThere:
        raise NoCheckpoint(f"there is no folder {shelf.storage.address}") from None
    raise NoCheckpoint(f"there is no whole checkpoint in {shelf.storage.address}")
