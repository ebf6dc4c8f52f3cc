"""The claim of a round on its checkpoint folder, made in a background thread.

Older rounds must not publish as soon as this one trains, but training does not wait for storage. If
the claim cannot be written now, the first publication writes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from resile.checkpoint.errors import CheckpointError
from resile.checkpoint.fence import Claim, claim
from resile.checkpoint.remains import remove_remains
from resile.checkpoint.shelf import Shelf
from resile.checkpoint.storage import Storage

__all__ = ["make_claim_beside"]


def make_claim_beside(storage: Storage, mine: Claim, *, warn: Callable[[str], None]) -> None:
    """Start the thread and return. Warns if another round already resumed from an earlier step."""

    def make() -> None:
        try:
            fence = claim(storage, mine)
            remove_remains(Shelf(storage, mine.group))  # of rounds that are over now
        except CheckpointError:
            return
        if why := fence.superseded(mine.attempt, mine.step + 1):
            warn(f"checkpoints saved from here on cannot be used: {why}")

    threading.Thread(target=make, name="resile-claim", daemon=True).start()
