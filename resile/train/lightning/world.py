"""The world size in Lightning's terms."""

from __future__ import annotations

import os

__all__ = ["as_launched", "workers_launched"]


def as_launched() -> dict[str, int]:
    """Return ``devices`` and ``num_nodes`` for a Trainer, from `resile run` or torchrun.

    They change with the world, so a script cannot hard-code them. 1 and 1 without a launcher.
    """
    return {
        "devices": int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "num_nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    }


def workers_launched() -> int:
    """Return the total number of workers."""
    return int(os.environ.get("WORLD_SIZE", "1"))
