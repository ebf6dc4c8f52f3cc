"""The samplers' hook to the ledger: with ``$RESILE_LEDGER`` set a script needs nothing else."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from resile.ledger import FOLDER_VARIABLE, Ledger

__all__ = ["next_name", "open_ledger"]

_numbers = count()


def next_name() -> str:
    """A stream's name: the same on all ranks, as they make their samplers in the same order."""
    return f"data-{next(_numbers)}"


def open_ledger(
    folder: str | Path | None, name: str, *, length: int, drops: bool, rank: int, world: int
) -> Ledger | None:
    """The ledger to write to; None if nobody wants one."""
    chosen = folder or os.environ.get(FOLDER_VARIABLE)
    if not chosen:
        return None
    return Ledger(chosen, name, length=length, drops=drops, rank=rank, world=world)
