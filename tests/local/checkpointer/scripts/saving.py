"""One rank, as a node without an agent, that saves in one of several ways.

    saving.py WHAT CHECKPOINTS    with RANK, WORLD_SIZE and MEETING (a file) set

The result is asserted here if all ranks have to see it, otherwise by the test.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resile import Auto, Checkpointer
from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from resile.train.checkpoint import checkpointer as module
from resile.train.checkpoint.errors import NotSaved
from tests.checkpoints import newest_whole
from tests.local.checkpoint.disks import SIZE

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = 60


class Own:
    """A per-rank object of any size."""

    resile_per_rank = True

    def __init__(self, size: int = 0) -> None:
        self.bytes = torch.zeros(size, dtype=torch.uint8)

    def state_dict(self) -> dict[str, Any]:
        return {"bytes": self.bytes}

    def load_rank_states(self, states: Sequence[dict[str, Any]]) -> None:
        self.bytes = states[RANK]["bytes"]


def new_state(*, seed: int = 0, own: Own | None = None) -> dict[str, Any]:
    torch.manual_seed(seed)
    model: nn.Module = nn.Linear(8, 8)
    if WORLD > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return {"model": model, "optimizer": optimizer, "own": own or Own(), "step": 0}


def train(checkpointer: Checkpointer, state: dict[str, Any], *, steps: int = STEPS) -> None:
    for step in range(checkpointer.restore(state), steps):
        state["model"](torch.ones(2, 8)).sum().backward()
        state["optimizer"].step()
        state["optimizer"].zero_grad()
        checkpointer.step(step, state)
    checkpointer.wait(60)


def intervals(folder: Path) -> None:
    """Steps are so cheap that the longest interval is always chosen."""
    every = Auto(first=2, most_steps=6)
    with Checkpointer(folder, every=every, checkpoint_every=10, keep=0) as checkpointer:
        train(checkpointer, new_state())


def multiples(folder: Path) -> None:
    """Some of the snapshots are written; a run that starts between two continues the count."""
    for steps in (40, STEPS):
        with Checkpointer(folder, every=4, checkpoint_every=12, keep=0) as checkpointer:
            train(checkpointer, new_state(), steps=steps)


def one_disk_is_full(folder: Path) -> None:
    """Rank 1's part does not fit; all ranks get the error, and the next save succeeds."""
    state = new_state(own=Own(2 * SIZE if RANK == 1 else 0))
    with Checkpointer(folder, every=1000, quiet=True) as checkpointer:
        checkpointer.restore(state)
        said = r"step 1 is not on storage: rank 1: cannot write .*No space left on device"
        with pytest.raises(NotSaved, match=said):
            checkpointer.save(0, state, timeout=60)
        state["own"] = Own()
        for step in (0, 1):
            checkpointer.save(step, state, timeout=60)
            assert newest_whole(CheckpointCatalog(open_storage(str(folder)))).step == step + 1


def again(folder: Path) -> None:
    """The state changes after the step was saved, and is saved once more."""
    state = {**new_state(), "best": 0}
    with Checkpointer(folder, every=1) as checkpointer:
        checkpointer.restore(state)
        checkpointer.step(0, state)
        for state["best"] in (1, 2):
            checkpointer.save(0, state, timeout=60)
    dist.barrier()
    with Checkpointer(folder) as checkpointer:
        found = {**new_state(), "best": 0}
        assert checkpointer.restore(found) == 1
        assert found["best"] == 2


def no_room(folder: Path) -> None:
    """Rank 1 has no memory for snapshots, and writes while training waits."""
    if RANK == 1:
        module.LocalSnapshotClient = functools.partial(module.LocalSnapshotClient, limit=1000)  # type: ignore
    state = new_state()
    with Checkpointer(folder, every=20) as checkpointer:
        train(checkpointer, state)
        checkpointer.save(STEPS, state, timeout=60)
        assert newest_whole(CheckpointCatalog(open_storage(str(folder)))).step == STEPS + 1
    dist.barrier()
    again = new_state(seed=1)
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.restore(again) == STEPS + 1
    for name, tensor in state["model"].state_dict().items():
        assert torch.equal(again["model"].state_dict()[name], tensor), name


def no_room_and_a_full_disk(folder: Path) -> None:
    """A rank reports that it could not write, and training continues."""
    module.LocalSnapshotClient = functools.partial(module.LocalSnapshotClient, limit=1000)  # type: ignore
    state = new_state(own=Own(2 * SIZE))
    with Checkpointer(folder, every=20) as checkpointer:
        train(checkpointer, state, steps=30)
        with pytest.raises(NotSaved, match="No space left on device"):
            checkpointer.save(30, state, timeout=60)


def closed(folder: Path) -> None:
    """The last checkpoint is still being written when the script ends."""
    checkpointer = Checkpointer(folder, every=1)
    train_one_too_large(checkpointer)
    checkpointer.close()


def left_open(folder: Path) -> None:
    """The same without `close`."""
    train_one_too_large(Checkpointer(folder, every=1))


def train_one_too_large(checkpointer: Checkpointer) -> None:
    state = new_state(own=Own(2 * SIZE))
    checkpointer.restore(state)
    checkpointer.step(0, state)


def main() -> None:
    what, folder = sys.argv[1:]
    torch.set_num_threads(1)
    if WORLD > 1:
        os.environ.update(GROUP_RANK=str(RANK), GROUP_WORLD_SIZE=str(WORLD))
        meeting = f"file://{os.environ['MEETING']}"
        dist.init_process_group("gloo", init_method=meeting, rank=RANK, world_size=WORLD)
    globals()[what](Path(folder))
    if WORLD > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
