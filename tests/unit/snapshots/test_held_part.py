"""Many parts are opened at once, all or none."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.held_part import opened_parts
from resile.snapshots.messages import AT_ONCE, Open, RequestRefused
from resile.snapshots.slots import Label, PartPlace
from tests.local.commands import wait_for
from tests.local.snapshots.parts import RANK, is_whole, label_of, part_bytes
from tests.unit.snapshots.nodes import MakeNode, Node, nodes

MANY = 300
"""More than the kernel's 253 descriptors."""


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


def _filled(node: Node, count: int) -> list[Label]:
    labels = [
        Label(place=PartPlace(kind=RANK, index=rank, count=count), step=10, round=1, world=count)
        for rank in range(count)
    ]
    for label in labels:
        node.put(label, part_bytes(label, 100))
    return labels


def _holds_nothing(node: Node) -> bool:
    """Whether a worker could overwrite every part."""
    return all(node.is_free(held.label) for held in node.memory.inventory())


def test_more_parts_than_a_packet_has_descriptors_are_opened(make: MakeNode) -> None:
    node = make(0)
    labels = _filled(node, MANY)
    parts = node.memory.open_all(labels)
    assert [part.label for part in parts] == labels
    assert all(is_whole(part.label, part.buffer) for part in parts)
    assert not _holds_nothing(node)
    for part in parts:
        part.close()
    wait_for(lambda: _holds_nothing(node), "the slots to be let go")


def test_nothing_to_open_needs_no_request(make: MakeNode) -> None:
    node = make(0)
    node.server.close()
    assert node.memory.open_all([]) == []


def test_if_one_part_is_not_there_none_is_held(make: MakeNode) -> None:
    node = make(0)
    labels = _filled(node, AT_ONCE + 20)
    gone = label_of(node.worker, RANK, 99)
    with pytest.raises(
        SnapshotRequestRefused, match="step 99 of rank-00000-of-00002 is not in this node"
    ):
        node.memory.open_all([*labels, gone])
    wait_for(lambda: _holds_nothing(node), "the slots to be let go")


def test_a_keeper_does_not_open_more_at_once_than_it_can_send(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 10)
    answer, descriptors = node.keeper.answer(node.worker, Open(labels=(label,) * (AT_ONCE + 1)))
    assert isinstance(answer, RequestRefused)
    assert "at most" in answer.reason
    assert descriptors == []


def test_descriptors_that_did_not_arrive_are_told_and_the_others_closed(make: MakeNode) -> None:
    node = make(0)
    labels = _filled(node, 3)
    holds = node.holdings.hold_all(labels)
    sizes = [size for _, size in holds]
    arrived = [descriptor for descriptor, _ in holds[:2]]
    os.close(holds[2][0])
    with pytest.raises(SnapshotRequestRefused, match=r"only 2 of 3 parts .*too many open files"):
        opened_parts(labels, sizes, descriptors=arrived)
    assert _holds_nothing(node)
