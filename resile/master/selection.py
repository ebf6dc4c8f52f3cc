"""Who is in the next round, and at which rank: pure functions of the nodes that are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count

from resile.master.records import NodeRecord


def choose_members(
    nodes: Collection[NodeRecord], previous: Collection[int], *, size: int
) -> list[NodeRecord]:
    """``size`` nodes: those who trained already stay, then the longest waiting."""
    before = set(previous)
    return sorted(nodes, key=lambda node: (node.id not in before, node.id))[:size]


def assign_slots(members: Iterable[NodeRecord]) -> dict[int, int]:
    """A slot for each node id: kept if held, the wished one if free, else the lowest free.

    Holders go first, so that a newcomer's wish never moves a node that trains; a spare that takes
    a lost node's place gets the place's rank.
    """
    members = list(members)
    held = {node.slot for node in members if node.slot is not None}
    wished = {node.info.rank for node in members if node.slot is None}
    free = (slot for slot in count() if slot not in held and slot not in wished)
    slots: dict[int, int] = {}
    taken: set[int] = set()
    for node in sorted(members, key=lambda node: (node.slot is None, node.id)):
        wish = node.slot if node.slot is not None else node.info.rank
        slot = wish if wish is not None and wish not in taken else next(free)
        slots[node.id] = slot
        taken.add(slot)
    return slots


def first_ranks(members: Iterable[int], nproc: Mapping[int, int]) -> dict[int, int]:
    """The global rank of each node's first worker, members in the order of their group ranks."""
    ranks: dict[int, int] = {}
    total = 0
    for node in members:
        ranks[node] = total
        total += nproc[node]
    return ranks
