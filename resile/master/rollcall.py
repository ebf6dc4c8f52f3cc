"""Who has been silent for longer than a lease, and what follows from that.

A node that was paused comes back as if nothing had happened. If nobody could train without it,
putting it out would only make training begin again: it is waited for instead, until it is heard,
until another node can take its place, or as long as a missing node is waited for.
"""

from __future__ import annotations

from resile.job.events import EventKind
from resile.master.formation import Formation
from resile.master.register import Register
from resile.master.roster import Node

__all__ = ["RollCall"]

CALLS_PER_LEASE = 10
"""How often it is looked who is silent: a tenth of a lease late is not late."""


class RollCall:
    """One job's."""

    def __init__(self, register: Register, formation: Formation) -> None:
        self._register = register
        self._formation = formation
        self.next = 0.0
        """When it is due again."""

    def out(self, now: float) -> list[Node]:
        """Nodes that are to be put out for their silence; none if it is not the time to look."""
        if now < self.next:
            return []
        elasticity = self._register.elasticity
        self.next = now + elasticity.lease / CALLS_PER_LEASE
        silent = self._register.roster.silent(now)
        if not silent or not self._formation.cannot_do_without(silent):
            return silent
        waited = [
            node
            for node in silent
            if node.id in self._register.round and now < node.lease_until + elasticity.join_timeout
        ]
        for node in waited:
            self._tell(node, now)
        return [node for node in silent if node not in waited]

    def _tell(self, node: Node, now: float) -> None:
        if not node.waited_for:
            node.waited_for = True
            text = (
                f"{node.label} has given no sign of life for {self._register.elasticity.lease:g} "
                "s; it is not put out, because nobody could take its place"
            )
            self._register.tell(EventKind.NODE_SILENT, text, now, node=node.id)
