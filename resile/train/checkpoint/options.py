"""The options of a Checkpointer: the snapshot interval, and validation of all arguments.

The interval is a fixed number of steps, or computed from its cost and benefit. A snapshot stalls
training for a moment; a failure loses the steps since the last one. Young's rule balances the two:
with a stall C and a mean time M between failures the best interval is sqrt(2 C M); Daly's
correction subtracts C. A budget is an upper bound for the stall's share of the time, whatever the
rule says. All of it is arithmetic on measured numbers, and each choice carries its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from resile.group_name import is_group

__all__ = [
    "Auto",
    "Costs",
    "SnapshotInterval",
    "check_arguments",
    "choose_interval",
]


@dataclass(frozen=True)
class Auto:
    """Lets Resile choose the snapshot interval."""

    budget: float = 0.01
    """The largest share of the time that snapshots may take."""

    mtbf: float = 3600.0
    """Assumed seconds between failures, until enough have been observed."""

    first: int = 10
    """The interval in steps until a stall has been measured."""

    most_steps: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.budget < 1:
            raise ValueError(f"budget must be a share of time between 0 and 1, not {self.budget}")
        if self.mtbf <= 0:
            raise ValueError(f"mtbf must be a number of seconds above 0, not {self.mtbf}")
        if self.first < 1 or self.most_steps < 1:
            raise ValueError("first and most_steps must be numbers of steps, 1 or more")


@dataclass
class Costs:
    """The measurements so far."""

    stall: float | None = None
    """Seconds per snapshot, smoothed."""

    step: float | None = None
    """Seconds per step without a snapshot, smoothed."""

    failures: int = 0
    seconds: float = 0.0
    """Training time during which the failures were counted."""

    _weight: float = field(default=0.3, repr=False)

    def note_stall(self, seconds: float) -> None:
        """Record how long a snapshot stalled training."""
        self.stall = self._smooth(self.stall, seconds)

    def note_step(self, seconds: float) -> None:
        """Record the duration of a step without a snapshot."""
        self.step = self._smooth(self.step, seconds)
        self.seconds += seconds

    def _smooth(self, old: float | None, new: float) -> float:
        return new if old is None else old + self._weight * (new - old)

    def time_between_failures(self, assumed: float) -> float:
        """The mean; ``assumed`` counts as one observed failure, so its weight fades."""
        return (assumed + self.seconds) / (1 + self.failures)


@dataclass(frozen=True)
class SnapshotInterval:
    """The number of steps between snapshots, and why."""

    steps: int
    reason: str


def choose_interval(auto: Auto, costs: Costs) -> SnapshotInterval:
    """Return the number of steps between snapshots that loses the least time."""
    if costs.stall is None or not costs.step:
        return SnapshotInterval(
            auto.first, f"every {auto.first} steps until a snapshot has been measured"
        )
    mtbf = costs.time_between_failures(auto.mtbf)
    best = math.sqrt(2 * costs.stall * mtbf) - costs.stall
    bound = costs.stall / auto.budget
    seconds = max(best, bound, costs.step)
    steps = min(max(1, round(seconds / costs.step)), auto.most_steps)
    why = f"a stall of {costs.stall * 1e3:.3g} ms, a failure every {mtbf:.3g} s"
    if bound > best:
        why = f"{why}, at most {auto.budget:.2%} of the time"
    return SnapshotInterval(steps, f"every {steps} steps ({steps * costs.step:.3g} s): {why}")


def check_arguments(
    every: int | Auto,
    checkpoint_every: int | None,
    keep: int,
    storage_options: dict[str, Any] | None,
    group: str | None = None,
) -> None:
    """Raise ValueError for an invalid argument; the text names it and says what would be right."""
    try:
        msgspec.msgpack.encode(storage_options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"storage_options must be plain values, as another process writes to storage: {error}"
        ) from None
    if not isinstance(every, Auto) and not _is_count(every, least=1):
        raise ValueError(f"every must be a number of steps, 1 or more, or Auto(); not {every!r}")
    if not _is_count(keep, least=0):
        raise ValueError(f"keep must be a number of checkpoints to keep, 0 for all; not {keep!r}")
    if group and not is_group(group):
        raise ValueError(f"group must be the name of a group, '' for the main one; not {group!r}")
    if checkpoint_every is None:
        return
    if not _is_count(checkpoint_every, least=1):
        raise ValueError(
            f"checkpoint_every must be a number of steps, 1 or more; not {checkpoint_every!r}"
        )
    if isinstance(every, int) and checkpoint_every % every:
        raise ValueError(
            f"checkpoint_every ({checkpoint_every}) must be a multiple of every ({every}): only "
            "snapshots are written to storage"
        )


def _is_count(value: object, *, least: int) -> bool:
    """Whether it is an int of at least ``least``; True, "10" and 1.5 are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
