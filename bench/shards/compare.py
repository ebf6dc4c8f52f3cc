"""Measure all systems in turn, and compare Resile's figure with its target."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from bench.progress import progress
from bench.results import MeasureResult, Series
from bench.shards.systems import ShardSystem
from bench.shards.trial import CLIENTS, ShardTrial, trial
from bench.targets import ShareOfBest, Shown, judged

_RATE = ShareOfBest(0.1, "at least 10 times as many shards a second as the best other")


def compare(
    systems: Sequence[ShardSystem], *, times: int, seconds: float, console: Console
) -> dict[str, list[ShardTrial]]:
    """Run each system ``times`` times, in turn."""
    trials: dict[str, list[ShardTrial]] = {system.name: [] for system in systems}
    with progress(console, "shards", total=times * len(systems)) as advance:
        for turn in range(times):
            for system in systems:
                advance(f"{system.label}, {turn + 1} of {times}")
                trials[system.name].append(trial(system, seconds=seconds))
    return trials


def assessed_shards(
    trials: Mapping[str, Sequence[ShardTrial]], systems: Sequence[ShardSystem]
) -> list[MeasureResult]:
    """The two figures of all systems."""
    return [
        judged(
            "shard-time",
            f"one master, {CLIENTS} clients: time a leased shard",
            [
                Series(one.name, one.family, one.label, [t.time for t in trials[one.name]])
                for one in systems
            ],
            target=_RATE,
            unit="µs",
        ),
        judged(
            "shard-cpu",
            f"one master, {CLIENTS} clients: CPU of the master a leased shard",
            [
                Series(one.name, one.family, one.label, [t.master_cpu for t in trials[one.name]])
                for one in systems
            ],
            target=Shown(),
            unit="µs",
        ),
    ]
