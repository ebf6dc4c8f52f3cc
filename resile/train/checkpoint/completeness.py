"""Which parts a step needs before it can be restored: a pure decision, from what parts say.

A step is whole when the parts of all its ranks are there, and the replica parts of one node. Nodes
may have different numbers of workers: the replica parts of one number must be complete, those of
another do not help.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from resile.checkpoint.part import PartKind, part_name

__all__ = ["PartLabel", "is_complete", "missing_parts", "replica_count"]


class PartLabel(Protocol):
    """What a part says of its place; a :class:`PartHeader` is one, an inventory's line may be."""

    @property
    def kind(self) -> PartKind: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def world(self) -> int: ...


def is_complete(labels: Iterable[PartLabel]) -> bool:
    """Whether these parts of one step suffice to restore it."""
    return not missing_parts(labels)


def missing_parts(labels: Iterable[PartLabel]) -> tuple[str, ...]:
    """The names of the parts that these, all of one step, lack; empty when it is whole."""
    held = list(labels)
    if not held:
        return ("every part",)
    world = held[0].world
    ranks = {one.index for one in held if one.kind is PartKind.RANK and one.count == world}
    absent = [
        part_name(PartKind.RANK, index, world) for index in range(world) if index not in ranks
    ]
    count = replica_count(held)
    if count is None:
        return (*absent, "the replica parts of any node")
    copies = _replicas(held)[count]
    return (
        *absent,
        *(
            part_name(PartKind.REPLICA, index, count)
            for index in range(count)
            if index not in copies
        ),
    )


def replica_count(labels: Iterable[PartLabel]) -> int | None:
    """Into how many replica parts the state is split, where nodes differ the most complete way."""
    held = _replicas(labels)
    return min(held, key=lambda count: (count - len(held[count]), count), default=None)


def _replicas(labels: Iterable[PartLabel]) -> dict[int, set[int]]:
    held: dict[int, set[int]] = {}
    for one in labels:
        if one.kind is PartKind.REPLICA:
            held.setdefault(one.count, set()).add(one.index)
    return held
