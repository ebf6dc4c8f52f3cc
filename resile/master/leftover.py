"""An abandoned job that new nodes find in the store.

A job whose processes were all killed is not over for its store. The next one at the same endpoint
continues it: round numbers go on, and so do leased records. The settings of the dead nodes are not
inherited: sizes, timeouts, and the restarts that they used up. A job counts as abandoned when every
node in the store has had its time to come back and none did. Nodes that joined meanwhile are told
so, and how to discard the old job instead.
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
    """Tracks the nodes that a restarted master found in its store."""

    def __init__(self, register: Register, how_to_forget: str) -> None:
        self._register = register
        self._how_to_forget = how_to_forget
        self._expected: set[int] = set()
        """Nodes of the store that have not come back; empty once the question is settled."""
        self._terms: Elasticity | None = None
        """The settings of the first node that joined meanwhile."""

    def expect(self, nodes: Iterable[Node]) -> None:
        """Expect the nodes of the store: any that comes back shows that the job is alive."""
        self._expected = {node.id for node in nodes}

    def came_back(self, node: Node) -> None:
        """A node is back: the job was not abandoned."""
        if node.id in self._expected:
            self._expected.clear()
            self._terms = None

    def joined(self, node: Node, terms: Elasticity) -> None:
        """A node joined that was not in the store."""
        if not self._expected:
            return
        self._terms = self._terms or terms
        register = self._register
        count = f"{len(self._expected)} node{'s' if len(self._expected) > 1 else ''}"
        reason = (
            f"found the job '{register.job.job}' at round {register.round.number}: its {count} "
            f"may rejoin within {register.elasticity.lease:g} s"
        )
        register.send(node.id, Wait(reason=reason))

    def gone(self, node: Node, now: float) -> None:
        """A node is out of the job. If it was the last one of the store, continue with the settings
        of the nodes that are here."""
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
            f"the nodes of the job '{register.job.job}', at round {number}, did not come back: it "
            "continues with the settings of the present nodes and with all restarts"
        )
        register.tell(EventKind.JOB_CONTINUED, text, now)
        if self._how_to_forget:
            text += f"; to discard it, {self._how_to_forget}"
        for present in register.roster:
            register.welcome(present, 0, note=text)
