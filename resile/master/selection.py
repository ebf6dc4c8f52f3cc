"""Selection of a round's members and ranks: pure functions of the nodes that are there."""

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
    """Choose ``sizes`` nodes of each role: previous members first, then by time of joining."""
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
    """Return the slot of each node id, in rank order: by role, then by slot."""
    by_role: dict[str, list[NodeRecord]] = {}
    for node in members:
        by_role.setdefault(elasticity.role_of(node.info.role), []).append(node)
    ordered: dict[int, int] = {}
    for role in sorted(by_role, key=elasticity.order_of):
        slots = assign_slots(by_role[role])
        ordered.update(sorted(slots.items(), key=lambda item: item[1]))
    return ordered


def assign_slots(members: Iterable[NodeRecord]) -> dict[int, int]:
    """Return a slot for each node id of one role: kept if held, the requested one if free, else the
    lowest free.

    Holders go first, so that a newcomer's request never moves a node that trains; a spare that
    replaces a lost node gets its rank.
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
    """Return the members whose success decides, in rank order; empty where all decide."""
    if elasticity.success is not GroupSuccess.FIRST or not members:
        return ()
    roles = {node: elasticity.role_of(nodes[node].role) for node in members}
    return tuple(node for node in members if roles[node] == roles[members[0]])


def first_ranks(members: Iterable[int], nproc: Mapping[int, int]) -> dict[int, int]:
    """Return the global rank of each node's first worker; members in the order of group ranks."""
    ranks: dict[int, int] = {}
    total = 0
    for node in members:
        ranks[node] = total
        total += nproc[node]
    return ranks


def role_places(
    members: Iterable[int], nproc: Mapping[int, int], nodes: Mapping[int, NodeInfo]
) -> dict[int, RolePlace]:
    """Return the ranks of each node's workers among those of its role."""
    role_of = {node: nodes[node].role if node in nodes else "" for node in members}
    totals: Counter[str] = Counter()
    firsts: dict[int, int] = {}
    for node, role in role_of.items():
        firsts[node] = totals[role]
        totals[role] += nproc[node]
    return {node: RolePlace(firsts[node], totals[role]) for node, role in role_of.items()}
