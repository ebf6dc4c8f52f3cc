"""Trials of an operator under load, as measures with their targets."""

from collections.abc import Sequence

from bench.many_jobs.large import LookTrial
from bench.many_jobs.load import LoadTrial
from bench.results import MeasureResult, Outcome, Series
from bench.targets import OURS, AtMost, Shown, Target, judged


def assessed_load(trials: Sequence[LoadTrial], *, jobs: int, nodes: int) -> list[MeasureResult]:
    """The measures of the load trials."""
    what = f"{jobs} jobs of {nodes} nodes"

    def measure(
        name: str, title: str, values: list[float], target: Target, unit: str
    ) -> MeasureResult:
        outcomes = [Outcome(value) for value in values]
        series = [Series(OURS, OURS, "Resile", outcomes)]
        return judged(name, f"{what}: {title}", series, target=target, unit=unit)

    return [
        measure(
            "load-created",
            "created to all pods created",
            [one.created for one in trials],
            AtMost(20.0, "under 20 s"),
            "s",
        ),
        measure(
            "load-replaced",
            "a pod of each deleted to all replaced",
            [one.replaced for one in trials],
            Shown(),
            "s",
        ),
        measure(
            "load-memory",
            "memory of the operator",
            [one.memory for one in trials],
            AtMost(200.0, "under 200 MB"),
            "MB",
        ),
        measure(
            "load-cpu", "CPU of the operator in all", [one.cpu for one in trials], Shown(), "s"
        ),
    ]


def assessed_looks(trials: Sequence[LookTrial], *, nodes: int) -> list[MeasureResult]:
    """The cost of one reconciliation of a large job, and the size of its output."""

    def measure(
        name: str, title: str, values: list[float], target: Target, unit: str
    ) -> MeasureResult:
        series = [Series(OURS, OURS, "Resile", [Outcome(value) for value in values])]
        return judged(name, f"a job of {nodes} nodes: {title}", series, target=target, unit=unit)

    return [
        measure(
            "look-status",
            "its status",
            [one.status / 1000 for one in trials],
            AtMost(800.0, "under 800 kB"),
            "kB",
        ),
        measure(
            "look-publication",
            "what its master is told",
            [one.publication / 1000 for one in trials],
            AtMost(500.0, "under 500 kB"),
            "kB",
        ),
        measure(
            "look-time",
            "CPU of one look of the operator",
            [one.seconds for one in trials],
            AtMost(1.0, "under 1 s"),
            "s",
        ),
    ]
