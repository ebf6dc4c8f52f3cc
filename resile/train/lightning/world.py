"""How many workers there are, in Lightning's words."""

from __future__ import annotations

import os

__all__ = ["as_launched", "workers_launched"]


def as_launched() -> dict[str, int]:
    """``devices`` and ``num_nodes`` for a Trainer, as `resile run` or torchrun started this worker.

    They change with the world, so they cannot stand in a script as numbers. 1 and 1 without a
    launcher.
    """
    return {
        "devices": int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "num_nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    }


def workers_launched() -> int:
    """In all."""
    return int(os.environ.get("WORLD_SIZE", "1"))
