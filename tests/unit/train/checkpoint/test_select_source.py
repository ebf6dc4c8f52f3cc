"""Which step to restore, from which nodes, in what order: decisions over the nodes' inventories."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.part import PartKind
from resile.snapshots.messages import HeldPartInfo
from resile.snapshots.slots import Label, PartPlace
from resile.train.checkpoint.restore.select_source import (
    Choice,
    NodeInventory,
    held_choices,
    holder_order,
    parts_for_node,
)

RANK, REPLICA = PartKind.RANK, PartKind.REPLICA


def _node(*parts: tuple[PartKind, int, int], world: int) -> NodeInventory:
    return NodeInventory(
        parts=tuple(
            HeldPartInfo(
                label=Label(
                    place=PartPlace(kind=kind, index=index, count=count),
                    step=10,
                    round=1,
                    world=world,
                ),
                size=1,
            )
            for kind, index, count in parts
        )
    )


def _ranks(*ranks: int, world: int) -> list[tuple[PartKind, int, int]]:
    return [(RANK, rank, world) for rank in ranks]


def _replicas(count: int) -> list[tuple[PartKind, int, int]]:
    return [(REPLICA, index, count) for index in range(count)]


def _names(node: int, choice: Choice) -> list[str]:
    return [one.label.place.name for one in parts_for_node(node, choice)]


def test_every_node_takes_the_replica_parts_that_it_has_itself() -> None:
    world = 3
    nodes = [
        _node(*_ranks(0, world=world), *_replicas(1), world=world),
        _node(*_ranks(1, 2, world=world), *_replicas(2), world=world),
        _node(world=world),
    ]
    (choice,) = held_choices(nodes)
    ranks = ["rank-00000-of-00003", "rank-00001-of-00003", "rank-00002-of-00003"]
    assert _names(0, choice) == [*ranks, "replica-00000-of-00001"]
    assert _names(1, choice) == [*ranks, "replica-00000-of-00002", "replica-00001-of-00002"]
    assert _names(2, choice) == [*ranks, "replica-00000-of-00001"]


def test_a_split_that_is_not_whole_is_no_choice() -> None:
    nodes = [
        _node(*_ranks(0, world=2), *_replicas(1), world=2),
        _node(*_ranks(1, world=2), (REPLICA, 0, 2), world=2),
    ]
    (choice,) = held_choices(nodes)
    assert {_names(node, choice)[-1] for node in (0, 1)} == {"replica-00000-of-00001"}


def test_a_node_asks_those_after_it_first() -> None:
    assert holder_order([0, 1, 3], node=2, nodes=4) == [3, 0, 1]
    assert holder_order([2, 0, 0], node=1, nodes=3) == [2, 0]


@given(st.data())
def test_what_a_node_wants_is_always_a_whole_step(data: st.DataObject) -> None:
    splits = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    world = sum(splits)
    first = [sum(splits[:node]) for node in range(len(splits))]
    nodes = [
        _node(
            *_ranks(*range(first[node], first[node] + split), world=world),
            *_replicas(split),
            world=world,
        )
        for node, split in enumerate(splits)
    ]
    newcomers = data.draw(st.integers(0, 2))
    (choice,) = held_choices([*nodes, *([NodeInventory()] * newcomers)])
    for node in range(len(splits) + newcomers):
        wanted = [one.label.place for one in parts_for_node(node, choice)]
        ranks = [place.index for place in wanted if place.kind is RANK]
        replicas = [place for place in wanted if place.kind is REPLICA]
        assert ranks == list(range(world))
        assert [place.index for place in replicas] == list(range(replicas[0].count))
        if node < len(splits):
            assert replicas[0].count == splits[node]


@given(st.sets(st.integers(0, 20), min_size=1), st.integers(0, 20))
def test_every_holder_gets_its_turn(holders: Iterable[int], node: int) -> None:
    assert sorted(holder_order(holders, node=node, nodes=21)) == sorted(holders)
