"""Handovers: saving the state of all members before a planned change of a round.

A node that joins or leaves on purpose can wait for a step to end. The phases, with the messages
that begin them:

PREPARE    all members are told to save soon (Handover, answered by HandoverTold)
CHOOSE     when all know, the first chooses the step (HandoverStep): no worker can miss it
SAVED      the workers of each member have saved that step and hold (HandedOver)
PUBLISHED  members that leave take their memory along: if no copy stays with another member, all
           put the step into storage (HandoverPublish, answered by HandoverPublished)
RELEASE    nothing is lost, or the time is over: nodes may leave (HandoverOver), the round breaks

When the time is over before a step is safe, the outcome says what is lost.

A handover is not written to the store: a restarted master knows of none and says so to every agent
that reconnects, and their workers continue. Each handover has a number, so that late answers to an
old one are ignored. Every handover ends: the round breaks, or every member is told that it is
cancelled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from resile.job.events import EventKind
from resile.master.state import GroupState
from resile.wire import messages

__all__ = [
    "HandoverManager",
    "HandoverState",
    "Stage",
]


class Stage(Enum):
    """The progress of a handover."""

    SAVING = "saving"
    """Not all members have saved the step."""

    SECURING = "securing"
    """All have; the parts of leaving members are not held elsewhere yet."""

    OVER = "over"
    """No step is lost, or waiting longer would not help."""


@dataclass
class HandoverState:
    """A planned change of one round. ``members``: each one's copies go to the next, those of the
    last to the first."""

    reason: str
    members: tuple[int, ...]
    leaving: set[int] = field(default_factory=set)
    """Nodes that leave once it is over; empty when the reason is new nodes."""

    securing: bool = False
    """Whether all members were asked to put the step into storage."""

    number: int = 0
    """Unique among all handovers of the job."""

    over: bool = False
    """Released: nodes may leave; the others still hold."""

    _prepared: set[int] = field(default_factory=set)
    _steps: dict[int, int] = field(default_factory=dict)
    _copied: dict[int, int | None] = field(default_factory=dict)
    _stored: dict[int, int | None] = field(default_factory=dict)

    def prepared(self, node: int) -> bool:
        """Note that a member's workers know of it; True when it was the last member."""
        missing = set(self.members) - self._prepared
        self._prepared.add(node)
        return missing == {node}

    def remind(self, node: int) -> None:
        """Note that a member was disconnected and is told again."""
        self._prepared.discard(node)

    def saved(self, node: int, step: int, *, copied: int | None) -> None:
        """Note the step that a member saved; the next member has copies up to ``copied``."""
        self._steps[node] = step
        self._copied[node] = copied

    def published(self, node: int, stored: int | None) -> None:
        """Note that storage has a member's parts up to ``stored``, and it waits no longer."""
        self._stored[node] = stored

    def stage(self, leaving: Collection[int]) -> Stage:
        """Return the stage, given the members that leave."""
        if self.members_missing:
            return Stage.SAVING
        if not self._at_risk(leaving) or self._is_stored:
            return Stage.OVER
        if self._stored.keys() >= set(self.members) and not self._copies_can_help(leaving):
            return Stage.OVER
        return Stage.SECURING

    @property
    def any_saved(self) -> bool:
        """Whether any member has saved a step."""
        return bool(self._steps)

    @property
    def members_missing(self) -> set[int]:
        """Members that have not saved a step."""
        return set(self.members) - self._steps.keys()

    def outcome(self, leaving: Collection[int], labels: Mapping[int, str]) -> str:
        """Describe the outcome for people. ``labels``: the names of nodes."""
        if self.members_missing:
            saved = f"{len(self._steps)} of {len(self.members)} nodes saved in time"
            return f"{saved}, training resumes from an earlier step"
        step = _either(self._steps.values())
        at_risk = self._at_risk(leaving)
        if not at_risk:
            return f"all {len(self.members)} nodes hold step {step}"
        if self._is_stored:
            return f"all {len(self.members)} nodes hold step {step}, which is in storage"
        lost = "; ".join(self._loss(node, leaving, labels) for node in at_risk)
        return f"step {step} is lost, training resumes from an earlier one: {lost}"

    def _loss(self, node: int, leaving: Collection[int], labels: Mapping[int, str]) -> str:
        """Describe why a leaving member's parts are held nowhere else."""
        step, copied = self._steps[node], self._copied[node]
        follower = self._next(node)
        if follower == node:
            copies = "there is no other node for copies of its parts"
        elif follower in leaving:
            copies = (
                f"{labels.get(follower, follower)}, which has the copies of its parts, leaves too"
            )
        elif copied is None:
            copies = "no step of its parts was copied to another node"
        else:
            copies = f"its parts were copied to another node up to step {copied}, not {step}"
        return f"{labels.get(node, node)} leaves, {copies}, and {self._storage()}"

    def _storage(self) -> str:
        known = [step for step in map(self._stored.get, self.members) if step is not None]
        if len(known) < len(self.members):
            return "the step is not in storage"
        return f"storage has step {min(known)}"

    def _at_risk(self, leaving: Collection[int]) -> list[int]:
        """Members that leave and whose parts no staying member holds."""
        return [
            node
            for node in self.members
            if node in leaving and (self._next(node) in leaving or not self._is_copied(node))
        ]

    def _copies_can_help(self, leaving: Collection[int]) -> bool:
        """Whether copies that are still being transferred may preserve the step."""
        return all(self._next(node) not in leaving for node in self._at_risk(leaving))

    def _is_copied(self, node: int) -> bool:
        copied = self._copied.get(node)
        return copied is not None and copied >= self._steps[node]

    @property
    def _is_stored(self) -> bool:
        return all(
            (stored := self._stored.get(node)) is not None and stored >= self._steps[node]
            for node in self.members
        )

    def _next(self, node: int) -> int:
        return self.members[(self.members.index(node) + 1) % len(self.members)]


def _either(steps: Iterable[int]) -> str:
    return " or ".join(str(step) for step in sorted(set(steps)))


class HandoverManager:
    """The handovers of one group, of which at most one is in progress.

    Methods that take a member's answer return whether there is nothing left to wait for.
    """

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._current: HandoverState | None = None
        self.until: float | None = None
        """The deadline of the handover in progress."""

    @property
    def current(self) -> HandoverState | None:
        """The handover in progress."""
        return self._current

    def begin(self, reason: str, now: float, *, leaving: int | None = None) -> None:
        """Start a handover, unless one is in progress, and add a node that wants to leave."""
        state = self._state
        if self._current is None:
            number = state.job.handovers + 1
            state.set_job(handovers=number)
            state.handover = number
            self._current = HandoverState(reason, tuple(state.round.members), number=number)
            self.until = now + state.elasticity.handover_timeout
            for member in state.round.members:
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
            state = self._state
            step = messages.HandoverStep(round=state.round.number, handover=number)
            state.send(state.round.members[0], step)
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
            self.until = now + self._state.elasticity.handover_timeout
            for member in self._state.round.members:
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
        self.until = now + self._state.elasticity.lease
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
            round=self._state.round.number, handover=handover.number, reason=reason
        )
        for member in self._state.round.members:
            if member in self._state.nodes:
                self._state.send(member, cancelled)
        self.drop()

    def drop(self) -> None:
        """Drop the handover of a broken round; nodes that want to leave may go."""
        handover, self._current = self._current, None
        self.until, self._state.handover = None, 0
        for node in handover.leaving if handover is not None else ():
            self._let_go(node)

    def _in_preparation(self, number: int) -> HandoverState | None:
        """Return the handover in preparation if it has this number."""
        current = self._current
        known = current is not None and current.number == number and not current.over
        return current if known else None

    def _leaving(self) -> frozenset[int]:
        """Members that have announced that they leave."""
        return frozenset(self._state.nodes.leaving.intersection(self._state.round.members))

    def _tell_outcome(
        self, handover: HandoverState, now: float, *, also: int | None = None
    ) -> None:
        """Publish the outcome. ``also``: a member that leaves unannounced."""
        if handover.any_saved:
            labels = {node.id: node.label for node in self._state.nodes}
            leaving = {*self._leaving(), *(node for node in handover.members if node == also)}
            outcome = handover.outcome(leaving, labels)
            self._state.record_event(EventKind.HANDED_OVER, f"{handover.reason}: {outcome}", now)

    def _ask(self, handover: HandoverState, member: int) -> None:
        ask = messages.Handover(
            round=self._state.round.number, reason=handover.reason, handover=handover.number
        )
        self._state.send(member, ask)

    def _ask_to_publish(self, handover: HandoverState, member: int) -> None:
        number = self._state.round.number
        ask = messages.HandoverPublish(round=number, handover=handover.number)
        self._state.send(member, ask)

    def _let_go(self, node: int) -> None:
        self._state.send(node, messages.HandoverOver(round=self._state.round.number))
