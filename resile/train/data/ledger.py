"""Opens the ledger for samplers: with ``$RESILE_LEDGER`` set a script needs nothing else."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from resile.ledger import FOLDER_VARIABLE, Ledger

__all__ = ["next_name", "open_ledger"]

_numbers = count()


def next_name() -> str:
    """Return a default name: the same on all ranks, as they create samplers in the same order."""
    return f"data-{next(_numbers)}"


def open_ledger(
    folder: str | Path | None, name: str, *, length: int, drops: bool, rank: int, world: int
) -> Ledger | None:
    """Open the ledger to write to; None if none is configured."""
    chosen = folder or os.environ.get(FOLDER_VARIABLE)
    if not chosen:
        return None
    return Ledger(chosen, name, length=length, drops=drops, rank=rank, world=world)
