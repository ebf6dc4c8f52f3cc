"""Eviction of nodes that have been silent for longer than a lease.

A node that was paused comes back as if nothing had happened. If the group cannot train without it,
an eviction would only set training back: the master waits for it instead, until it is heard, until
another node can take its place, or for as long as it would wait for a missing node.
"""

from __future__ import annotations

from resile.job.events import EventKind
from resile.master.formation import Formation
from resile.master.register import Register
from resile.master.roster import Node

__all__ = ["RollCall"]

CALLS_PER_LEASE = 10
"""Checks for silent nodes per lease: an eviction is late by a tenth of a lease at most."""


class RollCall:
    """Finds the silent nodes of one group."""

    def __init__(self, register: Register, rounds: Formation) -> None:
        self._register = register
        self._formation = rounds
        self.next = 0.0
        """When the next check is due."""

    def out(self, now: float) -> list[Node]:
        """Return the nodes to evict for their silence; none if the next check is not due."""
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
                f"{node.label}: no heartbeat for {self._register.elasticity.lease:g} s; "
                "not evicted because no other node could take its place"
            )
            self._register.tell(EventKind.NODE_SILENT, text, now, node=node.id)
