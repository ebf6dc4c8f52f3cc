"""A restore from several nodes' memories opens the parts it needs, and is all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import torch
import torch.distributed as dist

from resile.checkpoint.errors import NoCheckpoint, PartDamaged
from resile.checkpoint.part import PartHeader, PartKind, Slice
from resile.snapshots.slots import Label
from resile.train.checkpoint.restore.apply_state import restore
from resile.train.checkpoint.restore.memory_parts import PeerPart, open_memory_parts
from resile.train.checkpoint.restore.part_tensors import Sources
from resile.train.checkpoint.restore.restore_coordinator import RestoreResult, resume
from resile.train.checkpoint.restore.select_source import (
    Choice,
    NodeInventory,
    RestoreSource,
    held_choices,
)
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from tests.local.commands import wait_for
from tests.unit.checkpoint.parts import make_part
from tests.unit.snapshots.giver import giver
from tests.unit.snapshots.nodes import MakeNode, Node, nodes
from tests.unit.train.checkpoint.parts import MemoryPart, place_of, save_node

WORLD = 2
ROWS = 300_000
REPLICAS = ["replica-00000-of-00002", "replica-00001-of-00002"]


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


class Own:
    """A per-rank object with a tensor, which is not in the header."""

    resile_per_rank = True

    def __init__(self, value: float) -> None:
        self.value = torch.full((3,), value)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class Hook:
    """Does something during a restore: after headers were received, before the data."""

    def __init__(self, deed: Callable[[], object] = lambda: None) -> None:
        self._deed = deed

    def state_dict(self) -> dict[str, int]:
        self._deed()
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        assert state == {}


def state_of(value: float, hook: Hook | None = None) -> dict[str, Any]:
    """Two large tensors, so that each of two workers has one in its replica part."""
    tensors = {name: torch.full((ROWS,), value) for name in ("left", "right")}
    return {"tensors": tensors, "own": Own(value), "hook": hook or Hook()}


def holds(state: dict[str, Any], value: float) -> bool:
    """Whether all of it has this value."""
    found = [*state["tensors"].values(), state["own"].value]
    return all(bool((tensor == value).all()) for tensor in found)


def label_of(part: MemoryPart) -> Label:
    header = part.header
    place = place_of(header)
    return Label(place=place, step=header.step, round=1, world=header.world)


def fill(node: Node, *, step: int) -> dict[str, Label]:
    """All parts of a step whose values are its number, as a node of two workers keeps them."""
    parts = save_node(state_of(step), workers=WORLD, step=step)
    for part in parts:
        node.put(label_of(part), bytes(part.data))
    return {label_of(part).place.name: label_of(part) for part in parts}


def part_of(name: str, *, step: int) -> MemoryPart:
    """One of the parts that :func:`fill` makes."""
    parts = save_node(state_of(step), workers=WORLD, step=step)
    (found,) = [part for part in parts if part.header.name == name]
    return found


def inventory(node: Node) -> NodeInventory:
    return NodeInventory(address=node.peers.address, parts=node.memory.inventory())


def newest(*nodes: Node) -> Choice:
    return held_choices([inventory(node) for node in nodes])[0]


def names(node: Node) -> list[str]:
    return sorted(held.label.place.name for held in node.memory.inventory())


def test_only_the_parts_that_are_needed_come_whole(make: MakeNode) -> None:
    new, holder = make(0), make(1)
    fill(holder, step=10)
    state = state_of(0)
    with ExitStack() as opened:
        parts = open_memory_parts(new.memory, newest(new, holder), node=0, opened=opened)
        assert len(parts) == 2 * WORLD
        assert names(new) == []
        restore(state, parts, rank=0)
    assert holds(state, 10)
    assert names(new) == ["rank-00000-of-00002", *REPLICAS]


def test_what_a_node_has_is_not_fetched(make: MakeNode) -> None:
    some, holder = make(0), make(1)
    fill(holder, step=10)
    mine = part_of(REPLICAS[0], step=10)
    some.put(label_of(mine), bytes(mine.data))
    state = state_of(0)
    with ExitStack() as opened:
        opened_parts = open_memory_parts(some.memory, newest(some, holder), node=0, opened=opened)
        restore(state, opened_parts, rank=1)
    assert holds(state, 10)
    assert names(some) == ["rank-00001-of-00002", *REPLICAS]


def replace_twice(holder: Node, label: Label, content: bytes) -> None:
    """Replace both slots of a place."""
    for _ in range(2):
        holder.put(label, content)


def test_a_part_that_vanishes_before_its_bytes_are_read_changes_nothing(make: MakeNode) -> None:
    new, holder = make(0), make(1)
    fill(holder, step=10)
    state = state_of(0)
    with ExitStack() as opened:
        parts = open_memory_parts(new.memory, newest(new, holder), node=0, opened=opened)
        for step in (20, 30):
            later = part_of(REPLICAS[1], step=step)
            holder.put(label_of(later), bytes(later.data))
        with pytest.raises(
            NoCheckpoint, match=r"step 10 of replica-00001-of-00002 is not available"
        ):
            restore(state, parts, rank=0)
    assert holds(state, 0)


def test_a_part_that_changes_before_its_bytes_are_read_changes_nothing(make: MakeNode) -> None:
    new, holder = make(0), make(1)
    labels = fill(holder, step=10)
    state = state_of(0)
    with ExitStack() as opened:
        parts = open_memory_parts(new.memory, newest(new, holder), node=0, opened=opened)
        tensors = {"tensors": {"another": torch.zeros(ROWS)}}
        for part in save_node(tensors, workers=WORLD, step=10):
            if label_of(part) == labels[REPLICAS[1]]:
                replace_twice(holder, label_of(part), bytes(part.data))
        with pytest.raises(PartDamaged, match="changed while it was read"):
            restore(state, parts, rank=0)
    assert holds(state, 0)


@pytest.mark.parametrize("node", [0, 1])
def test_a_part_under_another_ones_label_is_damaged(node: int, make: MakeNode) -> None:
    both = [make(0), make(1)]
    labels = fill(both[1], step=10)
    wrong = part_of(REPLICAS[1], step=10)
    replace_twice(both[1], labels[REPLICAS[0]], bytes(wrong.data))
    with (
        ExitStack() as opened,
        pytest.raises(PartDamaged, match=r"says that it is step 10 of replica-00001"),
    ):
        open_memory_parts(both[node].memory, newest(*both), node=node, opened=opened)


@pytest.mark.parametrize("node", [0, 1])
def test_a_part_shorter_than_it_says_is_damaged(node: int, make: MakeNode) -> None:
    both = [make(0), make(1)]
    fill(both[1], step=10)
    part = part_of(REPLICAS[1], step=10)
    replace_twice(both[1], label_of(part), bytes(part.data[:-4]))
    state = state_of(0)
    with ExitStack() as opened, pytest.raises(PartDamaged, match="bytes instead of"):
        restore(
            state, open_memory_parts(both[node].memory, newest(*both), node=node, opened=opened)
        )
    assert holds(state, 0)


def test_if_one_holder_is_gone_another_is_asked(make: MakeNode) -> None:
    new, gone, holder = make(0), make(1), make(1)
    for node in (gone, holder):
        fill(node, step=10)
    choice = newest(new, gone, holder)
    gone.close()
    state = state_of(0)
    with ExitStack() as opened:
        restore(state, open_memory_parts(new.memory, choice, node=0, opened=opened), rank=0)
    assert holds(state, 10)


def test_if_a_holder_is_lost_in_the_middle_the_next_one_gives_all_of_it(make: MakeNode) -> None:
    new, holder = make(0), make(1)
    label = fill(holder, step=10)[REPLICAS[0]]
    content = bytes(part_of(REPLICAS[0], step=10).data)
    with giver(content[: len(content) // 2], size=len(content)) as dying:
        part = PeerPart(
            label,
            content,
            attempts=[
                lambda address=address: new.memory.fetch(address, label)
                for address in (dying.address, holder.peers.address)
            ],
        )
        part.prefetch()
        dying.leave()
        assert part.read(0, len(content)) == content


def test_a_part_that_breaks_off_everywhere_says_why(make: MakeNode) -> None:
    new = make(0)
    part = part_of(REPLICAS[0], step=10)
    label, content = label_of(part), bytes(part.data)
    with giver(content[: len(content) // 2], size=len(content)) as dying:
        distant = PeerPart(
            label, content, attempts=[lambda: new.memory.fetch(dying.address, label)]
        )
        distant.prefetch()
        dying.leave()
        with pytest.raises(
            NoCheckpoint, match=r"is not available: snapshot server at .* ended after"
        ):
            distant.read(0, len(content))


def test_if_all_holders_are_gone_each_is_named(make: MakeNode) -> None:
    new, one, other = make(0), make(1), make(1)
    for node in (one, other):
        fill(node, step=10)
    choice = newest(new, one, other)
    one.close()
    other.holdings.discard_after(0)
    with (
        ExitStack() as opened,
        pytest.raises(
            NoCheckpoint, match="step 10 of rank-00000-of-00002 is not available"
        ) as raised,
    ):
        open_memory_parts(new.memory, choice, node=0, opened=opened)
    assert one.peers.address in str(raised.value)
    assert f"{other.peers.address} does not have it" in str(raised.value)


def run_all(nodes: Sequence[Node], states: Sequence[dict[str, Any]]) -> list[RestoreResult]:
    """Resume on all nodes at once, a worker each."""
    store = dist.HashStore()

    def one(rank: int) -> RestoreResult:
        place = RankInfo(
            rank=rank,
            world=len(nodes),
            local_rank=0,
            local_world=1,
            group_rank=rank,
            nodes=len(nodes),
            round=2,
        )
        channel = RoundChannel(place, store)
        return resume(
            states[rank],
            channel=channel,
            memory=nodes[rank].memory,
            storage=None,
            strict=True,
            trust=False,
        )

    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(one, range(len(nodes))))


def test_all_turn_to_the_next_best_step_if_a_part_vanishes_late(make: MakeNode) -> None:
    new, holder = make(0), make(1)
    for step in (10, 20):
        fill(holder, step=step)

    def vanish() -> None:
        def is_gone() -> bool:
            holder.holdings.discard_after(10)
            return {one.label.step for one in holder.memory.inventory()} == {10}

        wait_for(is_gone, "the holder's own worker to let go of step 20")

    states = [state_of(0, Hook(vanish)), state_of(0)]
    resumed = run_all([new, holder], states)
    assert [(one.source, one.step) for one in resumed] == [(RestoreSource.MEMORY, 10)] * 2
    assert all(holds(state, 10) for state in states)
    (problem,) = resumed[0].problems
    assert "step 20 in memory: rank 0: step 20 of replica-" in problem
    assert "is not available" in problem


def test_a_slice_that_two_ranks_kept_is_taken_from_the_one_at_hand() -> None:
    def part(kind: PartKind, index: int, count: int, **about: Any) -> memoryview:
        header = PartHeader(step=1, kind=kind, index=index, count=count, world=WORLD, **about)
        return make_part(header, contents={name: bytes(16) for name in header.slices})

    both = {"w": Slice(dtype="F32", shape=(4,), whole=(4,), offsets=(0,))}
    distant, near = (
        part(PartKind.RANK, rank, WORLD, slices=both, values={}) for rank in range(WORLD)
    )
    label = label_of(MemoryPart(distant))
    sources = Sources(
        [
            PeerPart(label, bytes(distant), attempts=[pytest.fail]),
            MemoryPart(near),
            MemoryPart(part(PartKind.REPLICA, 0, 1, values={})),
        ]
    )
    (chunk,) = sources.stored("w").chunks
    assert chunk.whole().tolist() == [0.0] * 4
