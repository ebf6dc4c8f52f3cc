"""The state of one handover: what members have done before a planned change of a round.

A node that joins or leaves on purpose can wait for a step to end. The phases, with the messages
that begin them:

PREPARE    all members are told to save soon (Handover, answered by HandoverTold)
CHOOSE     when all know, the first chooses the step (HandoverStep): no worker can miss it
SAVED      the workers of each member have saved that step and hold (HandedOver)
PUBLISHED  members that leave take their memory along: if no copy stays with another member, all
           put the step into storage (HandoverPublish, answered by HandoverPublished)
RELEASE    nothing is lost, or the time is over: nodes may leave (HandoverOver), the round breaks

When the time is over before a step is safe, the outcome says what is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["HandoverState", "Stage"]


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
    """One planned change of one round. ``members``: each one's copies go to the next, those of the
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
