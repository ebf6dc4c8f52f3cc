"""The handovers of a group: messages to members before a planned change, and how each one ends.

A handover is not written to the store: a restarted master knows of none and says so to every agent
that reconnects, and their workers continue. Each handover has a number, so that late answers to an
old one are ignored. Every handover ends: the round breaks, or every member is told that it is
cancelled. The phases: ``handover``.
"""

from __future__ import annotations

from resile.job.events import EventKind
from resile.master.handover import HandoverState, Stage
from resile.master.register import Register
from resile.wire import messages

__all__ = ["Handovers"]


class Handovers:
    """The handovers of one group, of which at most one is in progress.

    Methods that take a member's answer return whether there is nothing left to wait for.
    """

    def __init__(self, register: Register) -> None:
        self._register = register
        self._current: HandoverState | None = None
        self.until: float | None = None
        """The deadline of the handover in progress."""

    @property
    def current(self) -> HandoverState | None:
        """The handover in progress."""
        return self._current

    def begin(self, reason: str, now: float, *, leaving: int | None = None) -> None:
        """Start a handover, unless one is in progress, and add a node that wants to leave."""
        register = self._register
        if self._current is None:
            number = register.job.handovers + 1
            register.set_job(handovers=number)
            register.handover = number
            self._current = HandoverState(reason, tuple(register.round.members), number=number)
            self.until = now + register.elasticity.handover_timeout
            for member in register.round.members:
                self._ask(self._current, member)
        if leaving is not None:
            self._current.leaving.add(leaving)
            if self._current.over:
                self._let_go(leaving)

    def remind(self, member: int) -> None:
        """Repeat the messages of the current handover to a member that reconnected."""
        handover = self._current
        if handover is None or handover.over:
            return
        handover.remind(member)
        self._ask(handover, member)
        if handover.securing:
            self._ask_to_publish(handover, member)

    def prepared(self, node: int, number: int, *, able: bool) -> bool:
        """A member's workers know of the planned change, or cannot save."""
        handover = self._in_preparation(number)
        if handover is None:
            return False
        if able and handover.prepared(node):
            register = self._register
            step = messages.HandoverStep(round=register.round.number, handover=number)
            register.send(register.round.members[0], step)
        return not able

    def saved(self, node: int, number: int, step: int, now: float, *, copied: int | None) -> bool:
        """A member's workers saved a step and hold."""
        handover = self._in_preparation(number)
        if handover is None:
            return False
        handover.saved(node, step, copied=copied)
        return self._is_secured(handover, now)

    def published(self, node: int, number: int, stored: int | None, now: float) -> bool:
        """A member's saved state is in storage, or cannot be stored."""
        handover = self._in_preparation(number)
        if handover is None:
            return False
        handover.published(node, stored)
        return self._is_secured(handover, now)

    def _is_secured(self, handover: HandoverState, now: float) -> bool:
        """Whether no step is lost with the nodes that leave; ask for storage where it would be."""
        stage = handover.stage(self._leaving())
        if stage is Stage.SECURING and not handover.securing:
            handover.securing = True
            self.until = now + self._register.elasticity.handover_timeout
            for member in self._register.round.members:
                self._ask_to_publish(handover, member)
        return stage is Stage.OVER

    def finish(self, now: float) -> None:
        """Release the nodes that want to leave: all saved, or cannot, or took too long.

        The others hold until these have left, for a lease at most.
        """
        handover = self._current
        if handover is None or handover.over:
            return
        handover.over = True
        self.until = now + self._register.elasticity.lease
        self._tell_outcome(handover, now)
        for node in handover.leaving:
            self._let_go(node)

    def leaves_early(self, node: int, now: float) -> None:
        """Report what is lost with a node that leaves before the handover is over."""
        handover = self._current
        if handover is not None and not handover.over:
            self._tell_outcome(handover, now, also=node)

    def cancel(self, reason: str) -> None:
        """Cancel the change: the round continues, and all held workers with it."""
        handover = self._current
        if handover is None:
            return
        cancelled = messages.HandoverCancelled(
            round=self._register.round.number, handover=handover.number, reason=reason
        )
        for member in self._register.round.members:
            if member in self._register.roster:
                self._register.send(member, cancelled)
        self.drop()

    def drop(self) -> None:
        """Drop the handover of a broken round; nodes that want to leave may go."""
        handover, self._current = self._current, None
        self.until, self._register.handover = None, 0
        for node in handover.leaving if handover is not None else ():
            self._let_go(node)

    def _in_preparation(self, number: int) -> HandoverState | None:
        """Return the handover in preparation if it has this number."""
        current = self._current
        known = current is not None and current.number == number and not current.over
        return current if known else None

    def _leaving(self) -> frozenset[int]:
        """Members that have announced that they leave."""
        return frozenset(self._register.roster.parting.intersection(self._register.round.members))

    def _tell_outcome(
        self, handover: HandoverState, now: float, *, also: int | None = None
    ) -> None:
        """Publish the outcome. ``also``: a member that leaves unannounced."""
        if handover.any_saved:
            labels = {node.id: node.label for node in self._register.roster}
            leaving = {*self._leaving(), *(node for node in handover.members if node == also)}
            outcome = handover.outcome(leaving, labels)
            self._register.tell(EventKind.HANDED_OVER, f"{handover.reason}: {outcome}", now)

    def _ask(self, handover: HandoverState, member: int) -> None:
        ask = messages.Handover(
            round=self._register.round.number, reason=handover.reason, handover=handover.number
        )
        self._register.send(member, ask)

    def _ask_to_publish(self, handover: HandoverState, member: int) -> None:
        number = self._register.round.number
        ask = messages.HandoverPublish(round=number, handover=handover.number)
        self._register.send(member, ask)

    def _let_go(self, node: int) -> None:
        self._register.send(node, messages.HandoverOver(round=self._register.round.number))
