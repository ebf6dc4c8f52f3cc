"""A round: the selection of its members and ranks, its deadlines, and its messages.

Selection is a set of pure functions of the nodes that are there. ``Round`` has the members, their
ranks and their progress, and builds the messages to each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec

from resile.job.elasticity import Elasticity, GroupSuccess
from resile.master.records import NodeRecord, RoundPhase, RoundRecord
from resile.wire.messages import NodeInfo, Prepare, RolePlace, Start, StoreAddress


@dataclass
class Deadlines:
    """Independent deadlines; None while one is not set. See ``job/elasticity.py`` for each."""

    last_call: float | None = None
    join: float | None = None
    settle: float | None = None
    forming: float | None = None

    def pending(self) -> list[float]:
        """Return all that are set."""
        return [deadline for deadline in vars(self).values() if deadline is not None]


def is_over(deadline: float | None, now: float) -> bool:
    """Whether a deadline was set and has passed."""
    return deadline is not None and deadline <= now


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


class Round:
    """A round. ``record`` is stored; the sets are reported again to a restarted master."""

    def __init__(self, record: RoundRecord, nodes: Mapping[int, NodeInfo]) -> None:
        """``nodes``: the info of each member, lost members that finished included."""
        self.record = record
        self.ready: set[int] = set()
        self.succeeded = set(record.finished)
        self.reached: set[int] = set()
        self.late: set[int] = set()
        self._group_ranks = {node: rank for rank, node in enumerate(record.members)}
        nproc = {node: nodes[node].nproc if node in nodes else 0 for node in record.members}
        self._first_ranks = first_ranks(record.members, nproc)
        self._world_size = sum(nproc.values())
        self._places = role_places(record.members, nproc, nodes)

    @property
    def number(self) -> int:
        """Increases with each round; never reused."""
        return self.record.number

    @property
    def phase(self) -> RoundPhase:
        """The current phase."""
        return self.record.phase

    @property
    def members(self) -> tuple[int, ...]:
        """Node ids in the order of their group ranks."""
        return self.record.members

    @property
    def world_size(self) -> int:
        """The number of workers in it."""
        return self._world_size

    def __contains__(self, node: object) -> bool:
        return node in self._group_ranks

    def change(self, *, phase: RoundPhase, store: StoreAddress | None, reason: str) -> None:
        """Move to another phase."""
        self.record = msgspec.structs.replace(self.record, phase=phase, store=store, reason=reason)

    def first_rank(self, node: int) -> int:
        """Return the global rank of a member's first worker."""
        return self._first_ranks[node]

    def all_ready(self) -> bool:
        """Whether every member has stopped its old workers."""
        return len(self.ready) == len(self.members)

    def complete(self) -> bool:
        """Whether the members whose success decides have succeeded."""
        if self.phase is not RoundPhase.RUNNING:
            return False
        if self.record.success is GroupSuccess.ANY:
            return bool(self.succeeded)
        return self.succeeded.issuperset(self.record.deciding or self.members)

    def finish(self, node: int) -> None:
        """Note that a member that succeeded has left, so that it cannot be asked again."""
        finished = (*self.record.finished, node)
        self.record = msgspec.structs.replace(self.record, finished=finished)

    def prepare_for(self, node: int) -> Prepare:
        """Return the message to a member while the round forms."""
        rank = self._group_ranks[node]
        return Prepare(
            round=self.number,
            group_rank=rank,
            host_store=rank == 0,
            reason=self.record.reason,
        )

    def follower_of(self, node: int) -> int:
        """Return the next member in rank order; the first follows the last."""
        return self.members[(self._group_ranks[node] + 1) % len(self.members)]

    def start_for(
        self, node: int, *, run: str, restarts: int, max_restarts: int, neighbour: str = ""
    ) -> Start:
        """Return the message to a member when the round runs."""
        if self.record.store is None:
            raise RuntimeError(f"round {self.number} runs without a store: {self.record}")
        return Start(
            run=run,
            round=self.number,
            group_rank=self._group_ranks[node],
            group_world_size=len(self.members),
            role_place=self._places[node],
            first_rank=self._first_ranks[node],
            world_size=self._world_size,
            store=self.record.store,
            restart_count=restarts,
            max_restarts=max_restarts,
            neighbour=neighbour,
        )
