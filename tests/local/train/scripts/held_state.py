"""One rank of an FSDP2 training, as a separate node, whose state is kept in the nodes' memories.

    held_state.py replaced|fewer    with RANK, WORLD_SIZE and MEETING (a file) set

After a few steps a node is lost with its memory. Then either a new one takes its place, or the
others continue with fewer ranks. Each rank compares the restored state, to the bit, with the saved
one, and a node's memory with what it should have received.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from resile.checkpoint.part import PartKind
from resile.train.checkpoint.restore.restore_coordinator import resume
from resile.train.checkpoint.restore.select_source import RestoreSource
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.checkpoint.save.capture import Capture
from tests.local.commands import wait_for
from tests.local.snapshots.parts import copy_to
from tests.local.train.scripts.sharded_state import build, train, whole_state
from tests.unit.snapshots.nodes import Node

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
STEP = 3


@dataclass
class Saved:
    """The state that was saved."""

    tensors: dict[str, Any]
    random: torch.Tensor


def save(node: Node) -> Saved:
    """Train, and keep the state here and a copy of this rank's part on the next node."""
    state = build("fsdp", seed=0)
    torch.manual_seed(RANK)
    train(state, STEP)
    addresses: list[str] = [""] * WORLD
    dist.all_gather_object(addresses, node.peers.address)
    copy_to(node.memory, addresses[(RANK + 1) % WORLD])
    captured = Capture(rank=RANK, world=WORLD).take(state, step=STEP)
    for kind, portion in ((PartKind.RANK, captured.rank), (PartKind.REPLICA, captured.replica)):
        begun = node.memory.begin(kind, step=STEP, size=portion.size)
        portion.write(begun.buffer)
        node.memory.complete(kind)
    wait_for(lambda: node.memory.status().copied == STEP, "the copy on the next node")
    tensors = whole_state(state)
    return Saved(tensors, torch.rand(4))


def restore(node: Node, *, world: int, mesh: DeviceMesh | None = None) -> dict[str, Any]:
    """Restore as a rank of a new round, from a different initial state."""
    state = build("fsdp", seed=1, mesh=mesh)
    place = RankInfo(
        rank=RANK,
        world=world,
        local_rank=0,
        local_world=1,
        group_rank=RANK,
        nodes=world,
        round=2,
    )
    store = dist.PrefixStore("restore", dist.distributed_c10d._get_default_store())
    resumed = resume(
        state,
        channel=RoundChannel(place, store),
        memory=node.memory,
        storage=None,
        strict=True,
        trust=False,
    )
    assert (resumed.source, resumed.step, resumed.problems) == (RestoreSource.MEMORY, STEP, ())
    return state


def compare(state: dict[str, Any], saved: Saved) -> None:
    assert torch.equal(torch.rand(4), saved.random)
    found = whole_state(state)
    assert found.keys() == saved.tensors.keys()
    for name, tensor in saved.tensors.items():
        assert torch.equal(found[name], tensor), name
    assert state["step"] == STEP
    assert state["position"].seen == 4 * STEP * WORLD


def parts(node: Node) -> set[str]:
    """The names of the complete parts that a node holds."""
    return {held.label.place.name for held in node.memory.inventory()}


def rank_part(rank: int) -> str:
    return f"rank-{rank % WORLD:05d}-of-{WORLD:05d}"


REPLICA = "replica-00000-of-00001"


def replaced(node: Node, saved: Saved) -> Node:
    """Node 1 is lost with its memory, and another takes its place."""
    if RANK == 1:
        node.close()
        node = Node(RANK, world=WORLD)
    before = parts(node)
    compare(restore(node, world=WORLD), saved)
    if RANK == 1:
        assert parts(node) == {rank_part(1), REPLICA}, parts(node)
    else:
        assert parts(node) == before == {rank_part(RANK), rank_part(RANK - 1), REPLICA}
    return node


def fewer(node: Node, saved: Saved) -> Node:
    """The last node is lost, and the others continue."""
    others = DeviceMesh("cpu", list(range(WORLD - 1)))
    if RANK == WORLD - 1:
        node.close()
        return Node(RANK, world=WORLD)
    compare(restore(node, world=WORLD - 1, mesh=others), saved)
    return node


def main() -> None:
    (what,) = sys.argv[1:]
    torch.set_num_threads(1)
    meeting = os.environ["MEETING"]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=RANK, world_size=WORLD)
    node = Node(RANK, world=WORLD)
    saved = save(node)
    dist.barrier()
    node = {"replaced": replaced, "fewer": fewer}[what](node, saved)
    dist.barrier()
    node.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
