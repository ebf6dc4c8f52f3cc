"""Who is in the next round, and at which rank: pure functions of the nodes that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count

from resile.job.elasticity import Elasticity, GroupSuccess
from resile.master.records import NodeRecord
from resile.wire.messages import NodeInfo, RolePlace


def choose_members(
    nodes: Collection[NodeRecord],
    previous: Collection[int],
    elasticity: Elasticity,
    *,
    sizes: Mapping[str, int],
) -> list[NodeRecord]:
    """So many nodes of each role: those who trained already stay, then the longest waiting."""
    before = set(previous)
    left = dict(sizes)
    chosen = []
    for node in sorted(nodes, key=lambda node: (node.id not in before, node.id)):
        role = elasticity.role_of(node.info.role)
        if left.get(role, 0) > 0:
            left[role] -= 1
            chosen.append(node)
    return chosen


def in_rank_order(members: Iterable[NodeRecord], elasticity: Elasticity) -> dict[int, int]:
    """The slot of each node id, the first role's nodes first, and each role's by their slots."""
    by_role: dict[str, list[NodeRecord]] = {}
    for node in members:
        by_role.setdefault(elasticity.role_of(node.info.role), []).append(node)
    ordered: dict[int, int] = {}
    for role in sorted(by_role, key=elasticity.order_of):
        slots = assign_slots(by_role[role])
        ordered.update(sorted(slots.items(), key=lambda item: item[1]))
    return ordered


def assign_slots(members: Iterable[NodeRecord]) -> dict[int, int]:
    """A slot for each node id of one role: kept if held, the wished one if free, else the lowest
    free.

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


def deciding_members(
    members: Sequence[int], nodes: Mapping[int, NodeInfo], elasticity: Elasticity
) -> tuple[int, ...]:
    """Members, in the order of ranks, whose success it takes; none are named where all count
    alike."""
    if elasticity.success is not GroupSuccess.FIRST or not members:
        return ()
    roles = {node: elasticity.role_of(nodes[node].role) for node in members}
    return tuple(node for node in members if roles[node] == roles[members[0]])


def first_ranks(members: Iterable[int], nproc: Mapping[int, int]) -> dict[int, int]:
    """The global rank of each node's first worker, members in the order of their group ranks."""
    ranks: dict[int, int] = {}
    total = 0
    for node in members:
        ranks[node] = total
        total += nproc[node]
    return ranks


def role_places(
    members: Iterable[int], nproc: Mapping[int, int], nodes: Mapping[int, NodeInfo]
) -> dict[int, RolePlace]:
    """Where each node's workers are among those of its role, in the order of ranks."""
    role_of = {node: nodes[node].role if node in nodes else "" for node in members}
    totals: Counter[str] = Counter()
    firsts: dict[int, int] = {}
    for node, role in role_of.items():
        firsts[node] = totals[role]
        totals[role] += nproc[node]
    return {node: RolePlace(firsts[node], totals[role]) for node, role in role_of.items()}
