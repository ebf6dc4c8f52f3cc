"""How often to snapshot: a fixed number of steps, or chosen from what it costs and what it saves.

A snapshot stalls training for a moment; a failure throws away the steps since the last one. Young's
rule balances the two: with a stall C and a mean time M between failures the best interval is
sqrt(2 C M); Daly's correction takes C off it. A budget bounds the stall's share of the time from
above, whatever the rule says. All of it is arithmetic on measured numbers, and each choice carries
its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Auto", "Choice", "Costs", "choose_interval"]


@dataclass(frozen=True)
class Auto:
    """Let Resile choose how often to snapshot."""

    budget: float = 0.01
    """The largest share of the time that snapshots may take."""

    mtbf: float = 3600.0
    """Seconds between failures, until enough have been seen to know better."""

    first: int = 10
    """The interval in steps until a stall has been measured."""

    most_steps: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.budget < 1:
            raise ValueError(f"budget is a share of the time between 0 and 1, not {self.budget}")
        if self.mtbf <= 0:
            raise ValueError(f"mtbf is a number of seconds above 0, not {self.mtbf}")
        if self.first < 1 or self.most_steps < 1:
            raise ValueError("first and most_steps are numbers of steps, 1 or more")


@dataclass
class Costs:
    """What was measured so far."""

    stall: float | None = None
    """Seconds that the last snapshots took, smoothed."""

    step: float | None = None
    """Seconds from step to step without a snapshot, smoothed."""

    failures: int = 0
    seconds: float = 0.0
    """How long the job has been watched for failures."""

    _weight: float = field(default=0.3, repr=False)

    def note_stall(self, seconds: float) -> None:
        """A snapshot stalled training for so long."""
        self.stall = self._smooth(self.stall, seconds)

    def note_step(self, seconds: float) -> None:
        """A step without a snapshot took so long."""
        self.step = self._smooth(self.step, seconds)
        self.seconds += seconds

    def _smooth(self, old: float | None, new: float) -> float:
        return new if old is None else old + self._weight * (new - old)

    def time_between_failures(self, assumed: float) -> float:
        """The assumption counts as one failure seen: it fades as real ones come."""
        return (assumed + self.seconds) / (1 + self.failures)


@dataclass(frozen=True)
class Choice:
    """How many steps from snapshot to snapshot, and why."""

    steps: int
    reason: str


def choose_interval(auto: Auto, costs: Costs) -> Choice:
    """The number of steps between snapshots that loses the least time."""
    if costs.stall is None or not costs.step:
        return Choice(auto.first, f"every {auto.first} steps until a snapshot has been measured")
    mtbf = costs.time_between_failures(auto.mtbf)
    best = math.sqrt(2 * costs.stall * mtbf) - costs.stall
    bound = costs.stall / auto.budget
    seconds = max(best, bound, costs.step)
    steps = min(max(1, round(seconds / costs.step)), auto.most_steps)
    why = f"a stall of {costs.stall * 1e3:.3g} ms, a failure every {mtbf:.3g} s"
    if bound > best:
        why = f"{why}, at most {auto.budget:.2%} of the time"
    return Choice(steps, f"every {steps} steps ({steps * costs.step:.3g} s): {why}")
