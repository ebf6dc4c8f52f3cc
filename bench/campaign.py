"""Run the episodes of all launchers in turn and show progress.

Within an experiment launchers alternate and the order rotates, so that a slow minute of the machine
does not affect only one of them. A launcher that cannot be set up is skipped with its reason; a
failure in an episode is recorded as its outcome.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console

from bench.episodes import Findings
from bench.jobs import NoAnswer
from bench.launchers import LAUNCHERS, Launcher
from bench.measures import Experiment, Measure
from bench.peers import Unavailable
from bench.progress import progress
from bench.results import MeasureResult, Outcome, Series, Skipped, Strip
from bench.targets import judged


@dataclass
class Trials:
    """The episodes of one launcher in one experiment."""

    launcher: Launcher
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    strips: list[Strip] = field(default_factory=list)

    def add(self, measures: Sequence[Measure], findings: Findings, *, reason: str) -> None:
        """Record the findings of an episode; a measure without a value gets the reason."""
        for measure in measures:
            value = findings.values.get(measure.name)
            outcome = Outcome(None, reason) if value is None else Outcome(round(value, 4))
            self.outcomes.setdefault(measure.name, []).append(outcome)
        if findings.steps:
            name = measures[0].name
            strip = Strip(name, *_names(self.launcher), findings.values[name], findings.steps)
            self.strips.append(strip)

    def series(self, measure: str) -> Series:
        """All outcomes of one measure."""
        return Series(*_names(self.launcher), self.outcomes[measure])

    def typical_strip(self) -> list[Strip]:
        """The strip with the median recovery, if there is any."""
        ordered = sorted(self.strips, key=lambda strip: strip.recovery)
        return ordered[len(ordered) // 2 :][:1]


@dataclass(frozen=True)
class Campaign:
    """The launchers to measure, the number of episodes, and the console for progress."""

    launchers: Sequence[Launcher]
    episodes: int
    console: Console
    keep: Path | None = None

    def run(self, experiment: Experiment) -> tuple[list[MeasureResult], list[Strip]]:
        """Run every launcher's episodes of one experiment."""
        taking_part = [one for one in self.launchers if one.name in experiment.launchers]
        trials = {launcher.name: Trials(launcher) for launcher in taking_part}
        turns = [
            (launcher, turn)
            for turn in range(self.episodes)
            for launcher in _rotated(taking_part, turn)
        ]
        with progress(self.console, experiment.name, total=len(turns)) as advance:
            for launcher, turn in turns:
                advance(f"{launcher.label}, {turn + 1} of {self.episodes}")
                findings = Findings(keep=self.keep)
                reason = _attempt(experiment, launcher, findings)
                trials[launcher.name].add(experiment.measures, findings, reason=reason)
        done = list(trials.values())
        results = [_judged(measure, done) for measure in experiment.measures if done]
        return results, [strip for one in done for strip in one.typical_strip()]


def chosen_launchers(names: Sequence[str]) -> list[Launcher]:
    """Launchers by name or by family, in the catalogue's order."""
    return [one for one in LAUNCHERS if one.name in names or one.family in names]


class Preparable(Protocol):
    """Something that may have to be installed before it can be measured."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    def prepare(self) -> None: ...


P = TypeVar("P", bound=Preparable)


def prepared(candidates: Sequence[P], console: Console) -> tuple[list[P], list[Skipped]]:
    """Set up the candidates; return those that can run here, and the skipped ones with reasons."""
    ready: list[P] = []
    skipped: list[Skipped] = []
    for one in candidates:
        try:
            with console.status(f"setting up {one.label}"):
                one.prepare()
            ready.append(one)
        except Unavailable as reason:
            skipped.append(Skipped(one.name, str(reason)))
            console.print(f"[yellow]skipping {one.label}:[/] {reason}")
    return ready, skipped


def _attempt(experiment: Experiment, launcher: Launcher, findings: Findings) -> str:
    """Run one episode; return the reason to record for any value it did not measure."""
    try:
        experiment.episode(launcher, findings)
    except NoAnswer as reason:
        return str(reason)
    return "training did not go on"


def _judged(measure: Measure, trials: Sequence[Trials]) -> MeasureResult:
    series = [one.series(measure.name) for one in trials]
    return judged(measure.name, measure.title, series, target=measure.target, unit=measure.unit)


def _rotated(launchers: Sequence[Launcher], turn: int) -> Iterator[Launcher]:
    for place in range(len(launchers)):
        yield launchers[(place + turn) % len(launchers)]


def _names(launcher: Launcher) -> tuple[str, str, str]:
    return launcher.name, launcher.family, launcher.label
