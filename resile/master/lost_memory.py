"""Recovery of a group whose master may have lost its state: when agents are asked, how long."""

from __future__ import annotations

from resile.master.recall import Recall, remembers
from resile.master.register import Register
from resile.wire.messages import Hello, Refused

__all__ = ["LostMemory"]


class LostMemory:
    """Asks agents what they hold, as long as nothing of the group's rounds is known."""

    def __init__(self, register: Register, *, forgotten: bool) -> None:
        """``forgotten``: the job is known to have trained, but its state is lost."""
        self._register = register
        self._forgotten = forgotten
        self._recall: Recall | None = None

    @property
    def recalling(self) -> bool:
        """Whether agents are being asked; no node is admitted meanwhile."""
        return self._recall is not None

    @property
    def until(self) -> float | None:
        """The deadline for agents to report; None while they are not asked."""
        return None if self._recall is None else self._recall.until

    def concerns(self, hello: Hello) -> bool:
        """Whether this agent or others may hold a round that this master does not know."""
        if self._register.round.number:
            return False
        return self._forgotten or remembers(hello)

    def start_recall(self, now: float) -> None:
        """Start asking agents."""
        elasticity = self._register.elasticity
        timeout = elasticity.lease
        if self._forgotten:
            # The old master may still run, and nodes with it that save before they leave.
            timeout += elasticity.leave_timeout
        self._recall = Recall(until=now + timeout)

    def hear(self, hello: Hello, *, now: float) -> Refused | None:
        """Add what an agent holds; the answer asks it to retry soon."""
        if self._recall is None or self._register.round.number:
            return None
        return self._recall.hear(hello, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """Stop waiting for nodes that this master might not know of: all of them are gone."""
        if self._recall is None:
            self._forgotten = False
        elif not self._recall.anything:
            self._recall.until = min(self._recall.until, now)

    def adopt(self, now: float) -> str:
        """Continue from what agents hold; return a description of the result."""
        recall, self._recall, self._forgotten = self._recall, None, False
        if recall is None:
            raise RuntimeError("no agent was asked what it holds")
        if recall.anything:
            self._register.adopt(recall.memory(self._register.job), now=now)
        return recall.sentence
