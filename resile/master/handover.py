"""Before a planned change: who was told to save, who has, and when it is over.

A node that joins or leaves on purpose can wait for a step to end. All members are told first; only
when every one knows is the first of them told to choose the step, so that no worker can pass it
unawares. They all save that step and hold. Then the round may break, and no step is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Handover"]


@dataclass
class Handover:
    """One planned change of one round."""

    reason: str
    members: frozenset[int]
    leaving: set[int] = field(default_factory=set)
    """Those who want to go once it is over; empty when newcomers are the reason."""

    _told: set[int] = field(default_factory=set)
    _steps: dict[int, int] = field(default_factory=dict)
    _published: set[int] = field(default_factory=set)

    def told(self, node: int) -> bool:
        """A member's workers know; True when it was the last one."""
        missing = self.members - self._told
        self._told.add(node)
        return missing == {node}

    def remind(self, node: int) -> None:
        """A member was away and may not have heard of it: it is told again."""
        self._told.discard(node)

    def saved(self, node: int, step: int) -> bool:
        """A member's workers hold a step; True when it was the last one."""
        missing = self.members - self._steps.keys()
        self._steps[node] = step
        return missing == {node}

    def published(self, node: int) -> bool:
        """A member has what it saved in storage; True when it was the last one."""
        missing = self.members - self._published
        self._published.add(node)
        return missing == {node}

    @property
    def any_saved(self) -> bool:
        """Whether any member saved something for it."""
        return bool(self._steps)

    @property
    def outcome(self) -> str:
        """What came of it, for people."""
        steps = sorted(set(self._steps.values()))
        if self.members - self._steps.keys():
            return f"{len(self._steps)} of {len(self.members)} nodes saved in time"
        return f"all {len(self.members)} nodes hold step {_either(steps)}"


def _either(steps: Iterable[int]) -> str:
    return " or ".join(str(step) for step in steps)
