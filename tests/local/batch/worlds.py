"""Worlds of real gloo processes, each forked from a server that has already imported torch.

A world runs one function on all of its ranks and ends when it has returned.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.local.warm import warm

PATIENCE = 120.0
"""Seconds; ranks that wait for each other for that long are deadlocked."""


def run_world(world: int, job: Callable[..., None], *args: Any, folder: Path) -> None:
    """Run ``job(*args)`` on this many ranks; fails if one of them fails or hangs."""
    store = folder / f"store-{len(list(folder.glob('store-*')))}"
    ranks = [
        warm.Process(target=_rank, args=(rank, world, str(store), job, args), daemon=True)
        for rank in range(world)
    ]
    for process in ranks:
        process.start()
    try:
        deadline = time.monotonic() + PATIENCE
        for process in ranks:
            process.join(max(deadline - time.monotonic(), 0))
        assert [process.exitcode for process in ranks] == [0] * world
    finally:
        for process in ranks:
            _end(process)


def _rank(rank: int, world: int, store: str, job: Callable[..., None], args: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    try:
        job(*args)
    finally:
        dist.destroy_process_group()


def _end(process: BaseProcess) -> None:
    if process.is_alive():
        process.kill()
    process.join()
