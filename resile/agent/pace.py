"""How fast one worker steps, from what it reports. Pure.

The agent reads reports when it comes to it, several at once if it was busy, so the time between two
of them says little if it is short: steps are measured together until enough time has gone by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Pace", "begun"]

LEAST = 0.1
"""Seconds that are measured at least: the agent comes to its reports many times in a second."""

WEIGHT = 0.25
"""Of a new measure beside all before it: a single slow step (a checkpoint, an evaluation) moves it
by a quarter, and a worker that has become slow is seen after some five measures."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """One worker's, in one round."""

    step: int
    stepped_at: float
    """When its last step was heard of."""

    step_time: float | None = None
    """Seconds a step, smoothed; None until two steps were heard of."""

    measured_step: int
    measured_at: float
    """Where the measure that is under way began."""

    def after(self, step: int, *, now: float) -> Pace:
        """With one more report; a step said again is no new one, an earlier one begins anew."""
        if step == self.step:
            return self
        if step < self.step:
            return replace(begun(step, now), step_time=self.step_time)
        later = replace(self, step=step, stepped_at=now)
        elapsed = now - self.measured_at
        if elapsed < LEAST:
            return later
        measure = elapsed / (step - self.measured_step)
        before = measure if self.step_time is None else self.step_time
        smoothed = before + WEIGHT * (measure - before)
        return replace(later, step_time=smoothed, measured_step=step, measured_at=now)


def begun(step: int, now: float) -> Pace:
    """With the first report of a step."""
    return Pace(step=step, stepped_at=now, measured_step=step, measured_at=now)
