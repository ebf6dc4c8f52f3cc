"""One round: its members, their ranks, how far they are, and what each of them is told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from resile.job.elasticity import GroupSuccess
from resile.master.records import RoundPhase, RoundRecord
from resile.master.selection import first_ranks, role_places
from resile.wire.messages import NodeInfo, Prepare, Start, StoreAddress


class Round:
    """The latest round. ``record`` is what survives the master; the sets are asked for again."""

    def __init__(self, record: RoundRecord, nodes: Mapping[int, NodeInfo]) -> None:
        """``nodes``: what is known of each member, lost members that finished included."""
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
        """Counts up; never used again."""
        return self.record.number

    @property
    def phase(self) -> RoundPhase:
        """Where it is in its life."""
        return self.record.phase

    @property
    def members(self) -> tuple[int, ...]:
        """Node ids in the order of their group ranks."""
        return self.record.members

    @property
    def world_size(self) -> int:
        """How many workers train in it."""
        return self._world_size

    def __contains__(self, node: object) -> bool:
        return node in self._group_ranks

    def change(self, *, phase: RoundPhase, store: StoreAddress | None, reason: str) -> None:
        """Move to another phase."""
        self.record = msgspec.structs.replace(self.record, phase=phase, store=store, reason=reason)

    def first_rank(self, node: int) -> int:
        """The global rank of a member's first worker."""
        return self._first_ranks[node]

    def all_ready(self) -> bool:
        """Every member stopped its old workers."""
        return len(self.ready) == len(self.members)

    def complete(self) -> bool:
        """Whether those whose success it takes have ended well."""
        if self.phase is not RoundPhase.RUNNING:
            return False
        if self.record.success is GroupSuccess.ANY:
            return bool(self.succeeded)
        return self.succeeded.issuperset(self.record.deciding or self.members)

    def finish(self, node: int) -> None:
        """A member that ended well goes, and nobody can ask it again."""
        finished = (*self.record.finished, node)
        self.record = msgspec.structs.replace(self.record, finished=finished)

    def prepare_for(self, node: int) -> Prepare:
        """What a member is told while the round forms."""
        rank = self._group_ranks[node]
        return Prepare(
            round=self.number,
            group_rank=rank,
            host_store=rank == 0,
            reason=self.record.reason,
        )

    def follower_of(self, node: int) -> int:
        """The next member in the order of ranks; the first one's turn comes after the last."""
        return self.members[(self._group_ranks[node] + 1) % len(self.members)]

    def start_for(
        self, node: int, *, run: str, restarts: int, max_restarts: int, neighbour: str = ""
    ) -> Start:
        """What a member is told when the round runs."""
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
