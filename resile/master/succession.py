"""Replacement of nodes: eviction or drain of the previous holder of a rank.

A replacement that a platform started is proof that its predecessor is lost, if that one is
disconnected. If it trains, it was replaced on purpose, for example because its machine is drained:
it may hold steps that no other node has, and is asked to leave, so that all members save first.
"""

from __future__ import annotations

from resile.master.formation import Formation
from resile.master.register import Register
from resile.master.roster import Node
from resile.wire.messages import Drain, NodeInfo

__all__ = ["Succession"]


class Succession:
    """Decides which nodes of one group a newcomer replaces."""

    def __init__(self, register: Register, rounds: Formation) -> None:
        self._register = register
        self._roster = register.roster
        self._formation = rounds

    def proven_gone(self, newcomer: NodeInfo, now: float) -> list[Node]:
        """Return the nodes that a newcomer proves lost. Others that it replaces are asked to leave;
        one that a restarted master still expects is given the time to come back for that."""
        gone = []
        for node in self._rivals(newcomer):
            away = not node.connected and node.not_before <= now
            if not _replaces(newcomer, node.record.info):
                gone += [node] if away else []
            elif self._formation.may_save(node, now):
                self._make_way(node, newcomer, now)
            elif node.connected or away:
                gone.append(node)
            else:
                self._roster.hasten([node.id], proof_at=now)
        return gone

    def came_back(self, node: Node, now: float) -> None:
        """A node reconnected; it may have been replaced meanwhile."""
        info = node.record.info
        for other in self._rivals(info):
            if _replaces(other.record.info, info) and self._formation.may_save(node, now):
                self._make_way(node, other.record.info, now)

    def _rivals(self, info: NodeInfo) -> list[Node]:
        """Return the nodes of the same role and rank. The slot of a node counts only where its
        platform gave it no rank: in a job of two roles those differ."""
        claimants = [] if info.rank is None else self._roster.claimants(info.rank)
        return [
            node
            for node in claimants
            if node.record.info.role == info.role and node.record.info.rank in (None, info.rank)
        ]

    def _make_way(self, node: Node, successor: NodeInfo, now: float) -> None:
        """Ask a node to leave cleanly, with a deadline."""
        if node.leave_by is None:
            node.leave_by = now + self._register.elasticity.leave_timeout
            if not self._formation.is_leaving(node):
                self._register.send(node.id, Drain(reason=f"replaced by {successor.name}"))


def _replaces(newcomer: NodeInfo, known: NodeInfo) -> bool:
    return (newcomer.generation or 0) > (known.generation or 0)
