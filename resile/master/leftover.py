"""A job that its nodes left behind, and that others find in the store.

A job whose processes were all killed is not over for its store. The next one at the same endpoint
continues it: rounds count on, and so do leased records. What must not be inherited is what the dead
nodes were given by their users: sizes, timeouts, and the restarts that they used up. Whether the
job was left behind is known when every node in the store has had its time to come back and none
did. Those who joined meanwhile are told, and how to begin with nothing instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.register import Register
from resile.master.roster import Node
from resile.wire.messages import Wait

__all__ = ["Leftover"]


class Leftover:
    """What became of the nodes that a returned master found in its store."""

    def __init__(self, register: Register, how_to_forget: str) -> None:
        self._register = register
        self._how_to_forget = how_to_forget
        self._expected: set[int] = set()
        """Nodes of the store of which nothing was heard; empty when there is no question."""
        self._terms: Elasticity | None = None
        """What the first node asked for that joined meanwhile."""

    def expect(self, nodes: Iterable[Node]) -> None:
        """These were in the store; anyone who comes back shows that the job lives."""
        self._expected = {node.id for node in nodes}

    def came_back(self, node: Node) -> None:
        """A node is back: the job was not left behind."""
        if node.id in self._expected:
            self._expected.clear()
            self._terms = None

    def joined(self, node: Node, terms: Elasticity) -> None:
        """Somebody joined who was not in the store."""
        if not self._expected:
            return
        self._terms = self._terms or terms
        register = self._register
        count = f"{len(self._expected)} node{'s' if len(self._expected) > 1 else ''}"
        reason = (
            f"found the job '{register.job.job}' at round {register.round.number}: its {count} "
            f"may come back within {register.elasticity.lease:g} s"
        )
        register.send(node.id, Wait(reason=reason))

    def gone(self, node: Node, now: float) -> None:
        """A node is out of the job. If it was the last one of the store, this is a new beginning
        with the terms of those who are here."""
        if node.id not in self._expected:
            return
        self._expected.discard(node.id)
        if self._expected or self._terms is None:
            return
        terms, self._terms = self._terms, None
        register = self._register
        register.set_job(elasticity=terms, restarts=0)
        number = register.round.number
        text = (
            f"the nodes that left the job '{register.job.job}' at round {number} are gone: it goes "
            "on with the settings of those who are here, and with all restarts"
        )
        register.tell(EventKind.JOB_CONTINUED, text, now)
        if self._how_to_forget:
            text += f"; to forget it, {self._how_to_forget}"
        for present in register.roster:
            register.welcome(present, 0, note=text)
