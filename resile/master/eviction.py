"""Rules for the eviction of nodes that are silent, and of nodes that were replaced.

A node that was paused comes back as if nothing had happened. If the group cannot train without it,
an eviction would only set training back: the master waits for it instead, until it is heard, until
another node can take its place, or for as long as it would wait for a missing node.

A replacement that a platform started is proof that its predecessor is lost, if that one is
disconnected. If it trains, it was replaced on purpose, for example because its machine is drained:
it may hold steps that no other node has, and is asked to leave, so that all members save first.
"""

from __future__ import annotations

from resile.job.events import EventKind
from resile.master.nodes import NodeEntry
from resile.master.rounds import RoundManager
from resile.master.state import GroupState
from resile.wire.messages import Drain, NodeInfo

__all__ = [
    "Replacement",
    "SilenceCheck",
]


CHECKS_PER_LEASE = 10
"""Checks for silent nodes per lease: an eviction is late by a tenth of a lease at most."""


class SilenceCheck:
    """Finds the silent nodes of one group."""

    def __init__(self, state: GroupState, rounds: RoundManager) -> None:
        self._state = state
        self._rounds = rounds
        self.next = 0.0
        """When the next check is due."""

    def out(self, now: float) -> list[NodeEntry]:
        """Return the nodes to evict for their silence; none if the next check is not due."""
        if now < self.next:
            return []
        elasticity = self._state.elasticity
        self.next = now + elasticity.lease / CHECKS_PER_LEASE
        silent = self._state.nodes.silent(now)
        if not silent or not self._rounds.depends_on(silent):
            return silent
        waited = [
            node
            for node in silent
            if node.id in self._state.round and now < node.lease_until + elasticity.join_timeout
        ]
        for node in waited:
            self._tell(node, now)
        return [node for node in silent if node not in waited]

    def _tell(self, node: NodeEntry, now: float) -> None:
        if not node.waited_for:
            node.waited_for = True
            text = (
                f"{node.label}: no heartbeat for {self._state.elasticity.lease:g} s; "
                "not evicted because no other node could take its place"
            )
            self._state.record_event(EventKind.NODE_SILENT, text, now, node=node.id)


class Replacement:
    """Decides which nodes of one group a newcomer replaces."""

    def __init__(self, state: GroupState, rounds: RoundManager) -> None:
        self._state = state
        self._nodes = state.nodes
        self._rounds = rounds

    def proven_gone(self, newcomer: NodeInfo, now: float) -> list[NodeEntry]:
        """Return the nodes that a newcomer proves lost. Others that it replaces are asked to leave;
        one that a restarted master still expects is given the time to come back for that."""
        gone = []
        for node in self._rivals(newcomer):
            away = not node.connected and node.not_before <= now
            if not _replaces(newcomer, node.record.info):
                gone += [node] if away else []
            elif self._rounds.may_save(node, now):
                self._drain_for(node, newcomer, now)
            elif node.connected or away:
                gone.append(node)
            else:
                self._nodes.shorten_grace([node.id], proof_at=now)
        return gone

    def came_back(self, node: NodeEntry, now: float) -> None:
        """A node reconnected; it may have been replaced meanwhile."""
        info = node.record.info
        for other in self._rivals(info):
            if _replaces(other.record.info, info) and self._rounds.may_save(node, now):
                self._drain_for(node, other.record.info, now)

    def _rivals(self, info: NodeInfo) -> list[NodeEntry]:
        """Return the nodes of the same role and rank. The slot of a node counts only where its
        platform gave it no rank: in a job of two roles those differ."""
        holders_of_rank = [] if info.rank is None else self._nodes.holders_of_rank(info.rank)
        return [
            node
            for node in holders_of_rank
            if node.record.info.role == info.role and node.record.info.rank in (None, info.rank)
        ]

    def _drain_for(self, node: NodeEntry, successor: NodeInfo, now: float) -> None:
        """Ask a node to leave cleanly, with a deadline."""
        if node.leave_by is None:
            node.leave_by = now + self._state.elasticity.leave_timeout
            if not self._rounds.is_leaving(node):
                self._state.send(node.id, Drain(reason=f"replaced by {successor.name}"))


def _replaces(newcomer: NodeInfo, known: NodeInfo) -> bool:
    return (newcomer.generation or 0) > (known.generation or 0)
