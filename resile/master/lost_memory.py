"""A group whose master may have lost its memory: when its agents are asked, and for how long."""

from __future__ import annotations

from resile.master.recall import Recall, remembers
from resile.master.register import Register
from resile.wire.messages import Hello, Refused

__all__ = ["LostMemory"]


class LostMemory:
    """Asks agents what they hold, as long as nothing of the group's rounds is known."""

    def __init__(self, register: Register, *, forgotten: bool) -> None:
        """``forgotten``: the job is known to have trained, though nothing of that is."""
        self._register = register
        self._forgotten = forgotten
        self._recall: Recall | None = None

    @property
    def recalling(self) -> bool:
        """Whether agents are being asked; no node is admitted meanwhile."""
        return self._recall is not None

    @property
    def until(self) -> float | None:
        """When to go on with what was heard by then; None while nobody is asked."""
        return None if self._recall is None else self._recall.until

    def concerns(self, hello: Hello) -> bool:
        """Whether there may be a round that this agent or others hold, and this master forgot."""
        if self._register.round.number:
            return False
        return self._forgotten or remembers(hello)

    def start_recall(self, now: float) -> None:
        """Ask agents from now on."""
        elasticity = self._register.elasticity
        timeout = elasticity.lease
        if self._forgotten:
            # The old master may still be there, and nodes with it that save before they leave.
            timeout += elasticity.leave_timeout
        self._recall = Recall(until=now + timeout)

    def hear(self, hello: Hello, *, now: float) -> Refused | None:
        """Take what an agent holds; the answer asks it to come again soon."""
        if self._recall is None or self._register.round.number:
            return None
        return self._recall.hear(hello, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """All nodes that this master might not know of are gone: there is nobody to wait for."""
        if self._recall is None:
            self._forgotten = False
        elif not self._recall.anything:
            self._recall.until = min(self._recall.until, now)

    def adopt(self, now: float) -> str:
        """Go on from what agents hold; returns what came of it, for people."""
        recall, self._recall, self._forgotten = self._recall, None, False
        if recall is None:
            raise RuntimeError("no agent was asked what it holds")
        if recall.anything:
            self._register.adopt(recall.memory(self._register.job), now=now)
        return recall.sentence
