"""The step time of one worker, computed from its progress reports. Pure.

The agent may read several reports at once if it was busy, so a short time between two of them says
little: steps are measured together until enough time has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Pace", "begun"]

LEAST = 0.1
"""Shortest interval that is measured, in seconds: the agent reads reports many times a second."""

WEIGHT = 0.25
"""Weight of a new measurement against the average so far: a single slow step (a checkpoint, an
evaluation) moves it by a quarter, and a worker that has become slow shows after about five."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The steps of one worker in one round."""

    step: int
    stepped_at: float
    """When its last step was reported."""

    step_time: float | None = None
    """Seconds per step, smoothed; None until two steps were reported."""

    measured_step: int
    measured_at: float
    """Start of the current measurement."""

    def after(self, step: int, *, now: float) -> Pace:
        """Return the pace after one more report. A repeated step changes nothing, an earlier one
        restarts the measurement."""
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
    """Return the pace after the first report of a step."""
    return Pace(step=step, stepped_at=now, measured_step=step, measured_at=now)
