"""The progress of copies to the next node, and whether they keep up with the snapshots. Pure.

A step is copied when the next node has acknowledged every part of it that this node has: with one
part missing the others are useless. Copies keep up when a step is copied before the next one is
saved; losing a node then costs one snapshot at most, because the other nodes still hold that step
as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from resile.snapshots.slots import Label, PartPlace

__all__ = ["STARVING_AFTER", "STARVING_FOR", "CopyProgress", "Lag"]

STARVING_AFTER = 3
"""Consecutive snapshots not copied before the next one: a single one may be late on a busy
machine."""

STARVING_FOR = 5.0
"""Seconds: snapshots every few milliseconds may be taken faster than they are copied."""

_KEPT = 4
"""Steps whose parts are remembered: older ones are no longer copied."""


@dataclass
class _Step:
    parts: int
    versions: dict[PartPlace, int] = field(default_factory=dict)
    acknowledged: set[PartPlace] = field(default_factory=set)

    @property
    def is_copied(self) -> bool:
        return len(self.acknowledged) >= self.parts


@dataclass(frozen=True)
class Lag:
    """How far copies are behind."""

    snapshots: int
    seconds: float


class CopyProgress:
    """Progress of the copies from one node to another. A new round drops the steps of older
    ones."""

    def __init__(self) -> None:
        self._steps: dict[tuple[int, int], _Step] = {}
        self._late = 0
        self._in_time = 0.0

    def saved(self, label: Label, *, parts: int, now: float) -> int:
        """A part of a step, one of ``parts``, is complete on this node; returns its version: how
        often it was saved so far. A part that is saved again has to be copied again.
        """
        moment = (label.round, label.step)
        newest = max(self._steps, default=None)
        if newest is None or moment[0] > newest[0]:
            self._steps.clear()
            self._late, self._in_time = 0, now
        elif moment > newest:
            self._note_pace(self._steps[newest], now)
        step = self._steps.setdefault(moment, _Step(parts))
        step.acknowledged.discard(label.place)
        step.versions[label.place] = step.versions.get(label.place, 0) + 1
        for old in sorted(self._steps)[:-_KEPT]:
            if not self._steps[old].is_copied or old < (self._copied or old):
                del self._steps[old]
        return step.versions[label.place]

    def acknowledged(self, label: Label, *, version: int) -> None:
        """The next node has acknowledged this version of a part."""
        step = self._steps.get((label.round, label.step))
        if step is not None and step.versions.get(label.place) == version:
            step.acknowledged.add(label.place)

    @property
    def copied(self) -> int | None:
        """The newest step of which every part has been acknowledged."""
        return None if self._copied is None else self._copied[1]

    def is_copied(self, moment: tuple[int, int]) -> bool:
        """Whether every part of a step of a round has been acknowledged."""
        return moment in self._steps and self._steps[moment].is_copied

    def lag(self, now: float) -> Lag | None:
        """How far copies are behind; None unless they have been for long enough to report."""
        seconds = now - self._in_time
        if self._late < STARVING_AFTER or seconds < STARVING_FOR:
            return None
        return Lag(self._late, seconds)

    @property
    def _copied(self) -> tuple[int, int] | None:
        return max((moment for moment, step in self._steps.items() if step.is_copied), default=None)

    def _note_pace(self, before: _Step, now: float) -> None:
        if before.is_copied:
            self._late, self._in_time = 0, now
        else:
            self._late += 1
