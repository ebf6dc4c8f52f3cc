"""A node's memory belongs to its group: no other is served, and no other's parts are used."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.errors import SnapshotServerGone
from resile.snapshots.messages import List, RequestRefused, WorkerHello
from tests.local.snapshots.parts import RANK, label_of, part_bytes, steps
from tests.unit.snapshots.nodes import MakeNode, nodes


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


def test_a_worker_of_another_group_is_not_served(make: MakeNode) -> None:
    node = make(0)
    node.save(10)
    stranger = msgspec.structs.replace(node.worker, group="evaluate")
    with pytest.raises(
        SnapshotServerGone, match="this node holds snapshots of the main group, not of group"
    ):
        AgentSnapshotClient(node.server.name, stranger)
    answer, _ = node.keeper.answer(stranger, List())
    assert isinstance(answer, RequestRefused)
    # Not even a later round of another group stops the node's workers.
    answer, _ = node.keeper.answer(late := stranger_of(stranger, round=9), late)
    assert isinstance(answer, RequestRefused)
    assert steps(node.memory) == [10]


def stranger_of(worker: WorkerHello, *, round: int) -> WorkerHello:
    return msgspec.structs.replace(worker, round=round)


def test_a_copy_of_another_groups_part_is_not_among_the_nodes_own(make: MakeNode) -> None:
    """The port of a lost node may now belong to another node, of another group."""
    train, evaluate = make(0), make(0, group="evaluate")
    train.save(10)
    stray = evaluate.save(90)
    evaluate.copy(stray, to=train)
    assert steps(train.memory) == [10]
    assert steps(evaluate.memory) == [90]
    assert stray.name == "step 90 of rank-00000-of-00002 of group 'evaluate'"
    # The same rank and world: in one pair of slots they would have replaced each other.
    train.save(20)
    train.save(30)
    assert steps(train.memory) == [20, 30]


def test_memory_of_another_groups_parts_is_given_back(make: MakeNode) -> None:
    train = make(0)
    other = msgspec.structs.replace(train.worker, group="evaluate", round=7)
    stray = label_of(other, RANK, 90)
    train.put(stray, part_bytes(stray, 1000))
    for step in (10, 20, 30):
        train.save(step)
    assert [held.label.place.group for held in train.holdings.inventory()] == ["", ""]
