"""One round: its members, their ranks, their progress, and the messages to each of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from resile.job.elasticity import GroupSuccess
from resile.master.records import RoundPhase, RoundRecord
from resile.master.selection import first_ranks, role_places
from resile.wire.messages import NodeInfo, Prepare, Start, StoreAddress


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
