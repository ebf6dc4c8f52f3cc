"""One rank of a training whose state is saved into files, or restored from them and compared.

    sharded_state.py save|check KIND FOLDER    with RANK, WORLD_SIZE and MEETING (a file) set

Saving also leaves the whole tensors, put together by torch itself, in expected.pt: what a restore
on any number of ranks is compared with, to the bit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from resile.train.checkpoint.restore.apply_state import restore
from resile.train.checkpoint.save.capture import Capture
from tests.unit.train.checkpoint.parts import MemoryPart, written

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])


class Net(nn.Module):
    """Sizes that ranks do not divide evenly; a bias smaller than the world; tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.up = nn.Linear(5, 14)
        self.down = nn.Linear(14, 5)
        self.narrow = nn.Linear(5, 2)
        self.widen = nn.Linear(2, 5)
        self.register_buffer("seen", torch.zeros(()))
        self.head = nn.Linear(5, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += 1
        hidden = self.embed(tokens)
        hidden = hidden + self.down(self.up(hidden).relu())
        found: torch.Tensor = self.head(hidden + self.widen(self.narrow(hidden)))
        return found


class Position:
    """The number of samples this rank has seen; the ranks' counts are merged on restore."""

    resile_per_rank = True

    def __init__(self) -> None:
        self.seen = 0

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_rank_states(self, states: list[dict[str, int]]) -> None:
        self.seen = sum(state["seen"] for state in states)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


def wrapped(kind: str, model: nn.Module, *, mesh: DeviceMesh | None = None) -> nn.Module:
    """The model wrapped for a kind; ``mesh``: for fsdp, if it is not over all ranks."""
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "fsdp":
        fully_shard([model.up, model.down], mesh=mesh)
        return fully_shard(model, mesh=mesh)
    if kind == "hybrid":
        mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("copies", "shards"))
        return fully_shard(model, mesh=mesh)
    if kind == "tensor":
        mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(model, mesh["tensor"], plan)
        return fully_shard(model, mesh=mesh["data"])
    return model


def build(kind: str, seed: int, *, mesh: DeviceMesh | None = None) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = wrapped(kind, Net(), mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "position": Position(),
        "step": 0,
    }


def train(state: dict[str, Any], steps: int) -> float:
    loss = torch.zeros(())
    for _ in range(steps):
        tokens = torch.randint(0, 11, (4,))
        loss = state["model"](tokens).square().mean()
        state["optimizer"].zero_grad()
        loss.backward()
        state["optimizer"].step()
        state["scheduler"].step()
        state["position"].seen += 4
        state["step"] += 1
    return loss.item()


def whole_state(state: dict[str, Any]) -> dict[str, Any]:
    """All tensors in one piece, by torch's own functions."""
    model, optimizer = state["model"], state["optimizer"]
    tensors = {f"model.{name}": t for name, t in get_model_state_dict(model).items()}
    for name, slots in get_optimizer_state_dict(model, optimizer)["state"].items():
        tensors.update({f"optimizer.{name}.{slot}": t for slot, t in slots.items()})
    return {
        name: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone()
        for name, t in tensors.items()
    }


def save(kind: str, folder: Path) -> None:
    state = build(kind, seed=0)
    torch.manual_seed(RANK)
    train(state, 3)
    workers = min(2, WORLD)
    capture = Capture(rank=RANK, world=WORLD, local_rank=RANK % workers, local_world=workers)
    captured = capture.take(state, step=3)
    (folder / captured.rank.header.name).write_bytes(written(captured.rank).data)
    if RANK // workers == 0:
        (folder / captured.replica.header.name).write_bytes(written(captured.replica).data)
    expected = whole_state(state)
    random = torch.rand(4)
    torch.save(random, folder / f"random-{RANK}.pt")
    if RANK == 0:
        torch.save(expected, folder / "expected.pt")


def check(kind: str, folder: Path) -> None:
    state = build(kind, seed=1)
    if os.environ.get("STEP_FIRST"):
        train(state, 1)
    files = [path for path in folder.iterdir() if path.suffix != ".pt"]
    restore(state, [MemoryPart(path.read_bytes()) for path in files], rank=RANK)
    stream = folder / f"random-{RANK}.pt"
    if stream.exists():
        assert torch.equal(torch.rand(4), torch.load(stream))
    expected = torch.load(folder / "expected.pt")
    found = whole_state(state)
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    saved_on = sum(1 for path in files if path.name.startswith("rank-"))
    assert state["step"] == 3
    assert state["position"].seen == 12 * saved_on
    assert state["scheduler"].get_last_lr() == [0.005]
    assert torch.isfinite(torch.tensor(train(state, 1)))


def main() -> None:
    what, kind, folder = sys.argv[1:]
    torch.set_num_threads(1)
    meeting = os.environ["MEETING"]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=RANK, world_size=WORLD)
    {"save": save, "check": check}[what](kind, Path(folder))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
