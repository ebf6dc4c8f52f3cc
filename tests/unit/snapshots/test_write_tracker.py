"""A keeper's record of the writing, from the carrier's messages."""

from __future__ import annotations

import logging

from resile.checkpoint.part import PartKind
from resile.snapshots.messages import Status
from resile.snapshots.slots import PartPlace
from resile.snapshots.write_tracker import WriteTracker
from resile.snapshots.writer import (
    CheckpointPublication,
    Failed,
    Finished,
    PartsWritten,
    Published,
    Target,
    Write,
)


class Node:
    """Two workers' parts, and the messages about them."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str]] = []
        self.writings = WriteTracker(lambda level, text: self.said.append((level, text)))

    def order(self, rank: int, step: int, *, attempt: str = "a", publishes: bool = False) -> Order:
        places = (PartPlace(kind=PartKind.RANK, index=rank, count=2),)
        publication = CheckpointPublication(world=2, replicas=1) if publishes else None
        target = Target(url="/storage", step=step, attempt=attempt)
        write = Write(target=target, lengths=(1,), publication=publication)
        assert self.writings.begin(places, step) is None
        return Order(self.writings, places, write)

    @property
    def status(self) -> Status:
        return self.writings.status(copied=None, copy_trouble="")


class Order:
    def __init__(self, writings: WriteTracker, places: tuple[PartPlace, ...], write: Write) -> None:
        self._hear = writings.hear(places, write)

    def ends(self, word: Finished) -> None:
        self._hear(word)


WRITTEN = PartsWritten(size=1, seconds=0.1)
FULL = Failed(reason="full")


def published(step: int) -> Published:
    return Published(step=step, size=1, seconds=0.1)


def test_trouble_with_one_part_is_not_covered_up_by_another_part_of_the_same_step() -> None:
    node = Node()
    first, second = node.order(0, 10), node.order(1, 10)
    first.ends(FULL)
    second.ends(WRITTEN)
    assert (node.status.trouble, node.status.troubled_step) == ("full", 10)
    assert node.status.trouble_line == "step 10: full"
    assert node.status.writing == ()


def test_trouble_is_over_when_the_part_or_a_later_step_is_written() -> None:
    node = Node()
    node.order(0, 10).ends(FULL)
    node.order(0, 10).ends(WRITTEN)
    assert (node.status.trouble, node.status.troubled_step) == ("", None)
    assert node.status.trouble_line == ""
    node.order(0, 20).ends(FULL)
    node.order(1, 30).ends(WRITTEN)
    assert (node.status.trouble, node.status.troubled_step) == ("", None)


def test_a_checkpoint_that_a_later_one_has_overtaken_is_no_trouble() -> None:
    node = Node()
    early, late = (node.order(rank, 10 + rank, publishes=True) for rank in range(2))
    late.ends(WRITTEN)
    late.ends(published(11))
    early.ends(Failed(reason="a part is missing"))
    assert node.status.trouble == ""
    assert [level for level, _ in node.said] == [logging.DEBUG, logging.INFO]


def test_trouble_after_going_back_to_an_earlier_step_counts() -> None:
    node = Node()
    ahead = node.order(0, 100, publishes=True)
    ahead.ends(WRITTEN)
    ahead.ends(published(100))
    node.order(0, 60, attempt="b", publishes=True).ends(FULL)
    assert (node.status.trouble_line, node.status.committed) == ("step 60: full", 100)
