"""Measure all systems at several sizes, and the growth of the cost with the size.

Growth is compared with n log n: the cost at the largest size over the cost at the smallest, divided
by the same ratio of n log n. At most 1 means that it grows no faster.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from bench.progress import progress
from bench.results import MeasureResult, Outcome, Series
from bench.scale.systems import System
from bench.scale.trial import Trial, trial
from bench.targets import AtMost, Shown, judged

HEADLINE = 1000
_FORM = AtMost(2.0, "under 2 s")
_REFORM = AtMost(0.5, "under 0.5 s")
_GROWTH = AtMost(1.0, "no faster than n log n")

Trials = Mapping[tuple[str, int], Sequence[Trial]]


def sweep(
    plan: Sequence[tuple[System, int]], *, times: int, console: Console
) -> dict[tuple[str, int], list[Trial]]:
    """Run each (system, size) ``times`` times, in turn."""
    trials: dict[tuple[str, int], list[Trial]] = {(system.name, size): [] for system, size in plan}
    with progress(console, "scale", total=times * len(plan)) as advance:
        for turn in range(times):
            for system, size in plan:
                advance(f"{system.label}, {size} agents, {turn + 1} of {times}")
                trials[system.name, size].append(trial(system, size))
    return trials


def assessed(trials: Trials, systems: Sequence[System]) -> list[MeasureResult]:
    """Every size's figures, and the growth of each system measured at more than one size."""
    results: list[MeasureResult] = []
    for size in sorted({size for _, size in trials}):
        form, reform = (_FORM, _REFORM) if size == HEADLINE else (Shown(), Shown())
        taking_part = [one for one in systems if (one.name, size) in trials]
        for field, title, target in (
            ("formed", f"{size:,} agents form a round", form),
            ("reformed", f"{size:,} agents lose one and form the round again", reform),
            ("master_cpu", f"{size:,} agents: CPU of the master for both", Shown()),
        ):
            series = [
                _series(one, [getattr(found, field) for found in trials[one.name, size]])
                for one in taking_part
            ]
            name = f"{field}-{size}"
            results.append(judged(name, title, series, target=target, unit="s", size=size))
    return results + list(_growth(trials, systems))


def relative_growth(costs: Mapping[int, float]) -> float:
    """Cost at the largest size over that at the smallest, in units of n log n."""
    small, large = min(costs), max(costs)
    expected = large * math.log(large) / (small * math.log(small))
    return costs[large] / costs[small] / expected


def _growth(trials: Trials, systems: Sequence[System]) -> Iterable[MeasureResult]:
    for field, what in (
        ("formed", "time to form"),
        ("reformed", "time to form again"),
        ("master_cpu", "master's CPU"),
    ):
        series = []
        for system in systems:
            costs = _medians(system, field, trials)
            if len(costs) > 1 and all(0 < cost < math.inf for cost in costs.values()):
                growth = round(relative_growth(costs), 3)
                series.append(_series(system, [Outcome(growth)]))
        if series:
            title = f"growth of the {what}, in units of n log n"
            name = f"{field}-growth"
            yield judged(name, title, series, target=_GROWTH, unit="ratio")


def _medians(system: System, field: str, trials: Trials) -> dict[int, float]:
    return {
        size: _series(system, [getattr(found, field) for found in found_all]).median
        for (name, size), found_all in trials.items()
        if name == system.name
    }


def _series(system: System, outcomes: list[Outcome]) -> Series:
    return Series(system.name, system.family, system.label, outcomes)
