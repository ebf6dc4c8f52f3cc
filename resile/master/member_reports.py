"""Reports of a group's nodes about themselves and their workers.

A report that concerns a round is refused when it is late: when its fence names another round than
the group's, or a node that is no longer in it. Each method returns why its report was refused, or
None. What follows for the round is decided in ``resile.master.rounds``.
"""

from __future__ import annotations

from resile.master.nodes import NodeTable
from resile.master.records import RoundPhase
from resile.master.round import Round
from resile.master.rounds import RoundManager
from resile.master.state import GroupState
from resile.wire.messages import (
    Fence,
    LocalState,
    Progress,
    RankProgress,
    StoreAddress,
    Usage,
    WorkerFailure,
    WorkersNow,
)

__all__ = ["MemberReports"]


class MemberReports:
    """Takes the reports of one group's nodes."""

    def __init__(self, state: GroupState, rounds: RoundManager) -> None:
        self._state = state
        self._rounds = rounds

    @property
    def _nodes(self) -> NodeTable:
        return self._state.nodes

    @property
    def _round(self) -> Round:
        return self._state.round

    def heard(self, fence: Fence, *, now: float) -> None:
        """Extend the lease of a node: any message shows that it is alive."""
        if node := self._nodes.get(fence.node):
            node.lease_until, node.waited_for = now + self._state.elasticity.lease, False

    def renew(
        self,
        fence: Fence,
        progress: Progress | None,
        *,
        usage: Usage | None = None,
        workers: WorkersNow | None = None,
        ranks: tuple[RankProgress, ...] = (),
        now: float,
    ) -> str | None:
        """A heartbeat, with the progress of the node's workers."""
        node = self._nodes.get(fence.node)
        if node is None:
            return f"node {fence.node} is not in the job"
        self.heard(fence, now=now)
        if progress is not None:
            node.progress = progress
            if progress.step is not None and fence.round == self._round.number:
                self._rounds.progressed(node, progress.step)
        node.usage, node.workers, node.ranks = usage, workers, ranks
        return None

    def warmed(self, fence: Fence, *, now: float) -> str | None:
        """A node can start workers at once: it may join a running round from now on."""
        node = self._nodes.get(fence.node)
        if node is None:
            return f"node {fence.node} is not in the job"
        self._nodes.warmed(node)
        self._rounds.consider(now)
        return None

    def ready(self, fence: Fence, store: StoreAddress | None, *, now: float) -> str | None:
        """A member has stopped its old workers; the first member has opened the store."""
        if refusal := self._state.why_stale(fence, RoundPhase.FORMING):
            return refusal
        hosts = fence.node == self._round.members[0]
        if hosts and store is None:
            return f"node {fence.node} hosts the store and gave no address of it"
        self._nodes[fence.node].state = LocalState.READY
        self._round.ready.add(fence.node)
        if hosts:
            self._round.change(
                phase=self._round.phase, store=store, reason=self._round.record.reason
            )
        if self._round.all_ready():
            self._rounds.start(now)
        return None

    def failed(
        self, fence: Fence, failures: tuple[WorkerFailure, ...], *, now: float
    ) -> str | None:
        """Workers of a node failed."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        node = self._nodes[fence.node]
        node.state = LocalState.FAILED
        self._rounds.failed(node, failures, now)
        return None

    def succeeded(self, fence: Fence, *, now: float) -> str | None:
        """All workers of a node succeeded."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        self._nodes[fence.node].state = LocalState.SUCCEEDED
        self._round.succeeded.add(fence.node)
        self._rounds.consider(now)
        return None

    def reached(
        self, fence: Fence, reached: tuple[int, ...], missing: tuple[int, ...], *, now: float
    ) -> str | None:
        """Workers of a node that have and have not reached the round's store, as global ranks."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        node = self._nodes[fence.node]
        first = self._round.first_rank(node.id)
        if not set(range(first, first + node.record.info.nproc)).issuperset({*reached, *missing}):
            return f"these ranks are not all of node {node.id}'s workers"
        node.missing = missing
        if reached:
            self._state.reached_group(node)
        (self._round.reached.add if reached else self._round.reached.discard)(fence.node)
        (self._round.late.add if missing else self._round.late.discard)(fence.node)
        self._rounds.check_for_late_workers(now)
        return None

    def leaving(self, fence: Fence, reason: str, *, now: float) -> str | None:
        """A node is about to leave: members save first."""
        node = self._nodes.get(fence.node)
        if node is None:
            return f"node {fence.node} is not in the job"
        self._rounds.leaving(node, reason, now)
        return None

    def handover_told(self, fence: Fence, handover: int, *, able: bool, now: float) -> str | None:
        """A node's workers know of a planned change, or cannot save."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        self._rounds.handover_prepared(self._nodes[fence.node], handover, now, able=able)
        return None

    def handed_over(
        self, fence: Fence, handover: int, step: int, *, copied: int | None, now: float
    ) -> str | None:
        """A node's workers saved a step for a planned change, and hold. ``copied``: the newest step
        of which the next node has copies of all parts of this one."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        node = self._nodes[fence.node]
        self._rounds.handed_over(node, handover, step, now, copied=copied)
        return None

    def handover_published(
        self, fence: Fence, handover: int, stored: int | None, *, now: float
    ) -> str | None:
        """A node waits no longer for storage, where its newest step is ``stored``."""
        if refusal := self._state.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        self._rounds.published(self._nodes[fence.node], handover, stored, now)
        return None
