"""Completeness of a step, decided from the labels of its parts. Pure.

A step is complete when the parts of all its ranks and the replica parts of one node exist. Nodes
may have different numbers of workers: the replica parts of one split must be complete, those of
another do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from resile.checkpoint.part import PartKind, part_name

__all__ = ["PartLabel", "is_complete", "missing_parts", "replica_count"]


class PartLabel(Protocol):
    """The fields that identify a part; a :class:`PartHeader` has them, and an inventory entry."""

    @property
    def kind(self) -> PartKind: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def world(self) -> int: ...


def is_complete(labels: Iterable[PartLabel]) -> bool:
    """Return whether these parts of one step suffice to restore it."""
    return not missing_parts(labels)


def missing_parts(labels: Iterable[PartLabel]) -> tuple[str, ...]:
    """Return the names of the missing parts of a step; empty when it is complete."""
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
    """Return the number of replica parts of the split; the most complete one if nodes differ."""
    held = _replicas(labels)
    return min(held, key=lambda count: (count - len(held[count]), count), default=None)


def _replicas(labels: Iterable[PartLabel]) -> dict[int, set[int]]:
    held: dict[int, set[int]] = {}
    for one in labels:
        if one.kind is PartKind.REPLICA:
            held.setdefault(one.count, set()).add(one.index)
    return held
