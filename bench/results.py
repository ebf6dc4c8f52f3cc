"""Benchmark results as JSON: every value of every launcher, and the machine it ran on.

A missing value (no recovery before the timeout, the agents exited) stays in its series as an
outcome without a value and with a note, so that a median over the series counts it as worse than
any number.
"""

import math
import os
import platform
import statistics
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """A measured value, or the reason why it is missing."""

    value: float | None
    note: str = ""


class Series(msgspec.Struct, frozen=True):
    """All outcomes of one launcher in one measure, in the order they were taken."""

    launcher: str
    family: str
    label: str
    outcomes: list[Outcome]

    @property
    def values(self) -> list[float]:
        """The outcomes that have a value."""
        return [outcome.value for outcome in self.outcomes if outcome.value is not None]

    @property
    def median(self) -> float:
        """The median, where an outcome without a value counts as infinitely bad."""
        missing = len(self.outcomes) - len(self.values)
        return statistics.median([*self.values, *[math.inf] * missing])

    @property
    def failures(self) -> dict[str, int]:
        """The number of outcomes without a value, by note."""
        counts: dict[str, int] = {}
        for outcome in self.outcomes:
            if outcome.value is None:
                counts[outcome.note] = counts.get(outcome.note, 0) + 1
        return counts


class MeasureResult(msgspec.Struct, frozen=True):
    """A measure for all launchers, with its target and whether it was met."""

    measure: str
    title: str
    unit: str
    wanted: str
    verdict: str
    met: bool | None
    series: list[Series]
    size: int | None = None
    """The number of agents, if the run varies it."""


class Strip(msgspec.Struct, frozen=True):
    """The steps around one fault, as seconds from the fault and rank; input of the picture."""

    measure: str
    launcher: str
    family: str
    label: str
    recovery: float
    steps: list[tuple[float, int]]


class Skipped(msgspec.Struct, frozen=True):
    """A launcher that could not be measured here, and the reason."""

    launcher: str
    reason: str


class Machine(msgspec.Struct, frozen=True):
    """The machine that a run was measured on."""

    processor: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    versions: dict[str, str]
    load_before: float


class Run(msgspec.Struct, frozen=True):
    """A run of one command."""

    command: str
    started: str
    machine: Machine
    measures: list[MeasureResult]
    strips: list[Strip] = []
    skipped: list[Skipped] = []


def merged(old: Run, new: Run) -> Run:
    """``new`` plus the measures that only ``old`` has: a long campaign may be run in parts."""
    fresh = {result.measure for result in new.measures}
    drawn = {strip.measure for strip in new.strips} | fresh
    return msgspec.structs.replace(
        new,
        measures=[*(m for m in old.measures if m.measure not in fresh), *new.measures],
        strips=[*(s for s in old.strips if s.measure not in drawn), *new.strips],
    )


def save(run: Run, path: Path) -> None:
    """Write a run; measures of an earlier run that this one did not repeat are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        run = merged(load(path), run)
    text = msgspec.json.format(msgspec.json.encode(run), indent=1)
    path.write_bytes(text + b"\n")


def load(path: Path) -> Run:
    """Read a run written by `save`."""
    return msgspec.json.decode(path.read_bytes(), type=Run)


def this_machine(packages: Sequence[str] = ("resile", "torch")) -> Machine:
    """This machine as it is now."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        versions={package: _version(package) for package in packages},
        load_before=round(os.getloadavg()[0], 2),
    )


def now() -> str:
    """The current UTC time in ISO format."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
