"""This worker's rank and world size."""

from __future__ import annotations

import os

import torch.distributed as dist

from resile.train.data.errors import DataMistake

__all__ = ["rank_and_world"]


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
