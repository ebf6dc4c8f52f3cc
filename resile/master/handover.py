"""Before a planned change: who was told to save, who has, and when it is over.

A node that joins or leaves on purpose can wait for a step to end. All members are told first; only
when every one knows is the first of them told to choose the step, so that no worker can pass it
unawares. They all save that step and hold.

A node that leaves takes its memory with it. It may go when its parts of the step are held by
others: as copies in the memory of the next member, if that one stays, or in storage. Then the round
may break, and no step is lost. If the time for that is over the outcome says what is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Handover", "Stage"]


class Stage(Enum):
    """How far a planned change is."""

    SAVING = "saving"
    """Not all members hold a step."""

    SECURING = "securing"
    """All do; what the leaving ones hold is not held elsewhere yet."""

    OVER = "over"
    """Nothing is lost, or waiting longer would not help."""


@dataclass
class Handover:
    """One planned change of one round. ``members``: in the order in which each one's copies go to
    the next, the last one's to the first."""

    reason: str
    members: tuple[int, ...]
    leaving: set[int] = field(default_factory=set)
    """Those who want to go once it is over; empty when newcomers are the reason."""

    securing: bool = False
    """All members were asked to have the step in storage."""

    number: int = 0
    """Of all handovers of the job: no two have the same."""

    over: bool = False
    """Everybody had the time to save; those who want to leave may go, the others still hold."""

    _told: set[int] = field(default_factory=set)
    _steps: dict[int, int] = field(default_factory=dict)
    _copied: dict[int, int | None] = field(default_factory=dict)
    _stored: dict[int, int | None] = field(default_factory=dict)

    def told(self, node: int) -> bool:
        """A member's workers know; True when it was the last one."""
        missing = set(self.members) - self._told
        self._told.add(node)
        return missing == {node}

    def remind(self, node: int) -> None:
        """A member was away and may not have heard of it: it is told again."""
        self._told.discard(node)

    def saved(self, node: int, step: int, *, copied: int | None) -> None:
        """A member's workers hold a step; the next member has copies up to ``copied``."""
        self._steps[node] = step
        self._copied[node] = copied

    def published(self, node: int, stored: int | None) -> None:
        """A member waits no longer for storage, which has its parts up to ``stored``."""
        self._stored[node] = stored

    def stage(self, leaving: Collection[int]) -> Stage:
        """How far it is, if these members leave."""
        if self.members_missing:
            return Stage.SAVING
        if not self._at_risk(leaving) or self._is_stored:
            return Stage.OVER
        if self._stored.keys() >= set(self.members) and not self._copies_can_help(leaving):
            return Stage.OVER
        return Stage.SECURING

    @property
    def any_saved(self) -> bool:
        """Whether any member saved something for it."""
        return bool(self._steps)

    @property
    def members_missing(self) -> set[int]:
        """Members that do not hold a step."""
        return set(self.members) - self._steps.keys()

    def outcome(self, leaving: Collection[int], labels: Mapping[int, str]) -> str:
        """What came of it, for people. ``labels``: what the nodes are called."""
        if self.members_missing:
            saved = f"{len(self._steps)} of {len(self.members)} nodes saved in time"
            return f"{saved}, training goes back to an earlier step"
        step = _either(self._steps.values())
        at_risk = self._at_risk(leaving)
        if not at_risk:
            return f"all {len(self.members)} nodes hold step {step}"
        if self._is_stored:
            return f"all {len(self.members)} nodes hold step {step}, which is in storage"
        lost = "; ".join(self._loss(node, leaving, labels) for node in at_risk)
        return f"step {step} is lost, training goes back to an earlier one: {lost}"

    def _loss(self, node: int, leaving: Collection[int], labels: Mapping[int, str]) -> str:
        """Why nobody else has a member's parts."""
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
        """Members that leave, and nobody who stays has their parts of the step."""
        return [
            node
            for node in self.members
            if node in leaving and (self._next(node) in leaving or not self._is_copied(node))
        ]

    def _copies_can_help(self, leaving: Collection[int]) -> bool:
        """Whether copies that are still on their way may save the step."""
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
