"""This worker's rank and world size, and the ledger it writes to.

With ``$RESILE_LEDGER`` set a script needs nothing else.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import torch.distributed as dist

from resile.ledger import FOLDER_VARIABLE, Ledger
from resile.train.data.errors import DataMistake

__all__ = [
    "next_name",
    "open_ledger",
    "rank_and_world",
]


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """Return the given values, else the process group's, else the environment's, else (0, 1)."""
    if dist.is_available() and dist.is_initialized():
        known = dist.get_rank(), dist.get_world_size()
    else:
        known = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = known[0] if rank is None else rank, known[1] if world is None else world
    if not 0 <= chosen[0] < chosen[1]:
        raise DataMistake(
            f"rank={chosen[0]} is out of range for num_replicas={chosen[1]}: "
            f"ranks go from 0 to {chosen[1] - 1}"
        )
    return chosen


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
