"""Write the results of saved runs into docs/benchmarks.md, between two markers."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.report import every_value, number
from bench.results import MeasureResult, Run, Series
from bench.targets import OURS

BEGIN = "<!-- results: written by `python -m bench publish` -->"
END = "<!-- end of results -->"


class MarksMissing(ValueError):
    """The document lacks the two markers that enclose the results."""


def publish(runs: Sequence[Run], document: Path) -> None:
    """Write the runs' results into a document, replacing the previous ones."""
    text = document.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise MarksMissing(f"{document} has no '{BEGIN}' followed by '{END}'")
    document.write_text(f"{before}{BEGIN}\n\n{markdown(runs)}\n{END}{after}")


def markdown(runs: Sequence[Run]) -> str:
    """A summary over all runs, then every measure with every value."""
    measures = [measure for run in runs for measure in run.measures]
    lines = [*_origins(runs), "", *_summary(measures), ""]
    for measure in measures:
        lines += [*_detail(measure), ""]
    return "\n".join(lines)


def _origins(runs: Sequence[Run]) -> Iterable[str]:
    for run in runs:
        machine = run.machine
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
        yield (
            f"- `{run.command}`: {run.started}, {machine.processor}, {machine.cores} cores, "
            f"Python {machine.python}, {versions}, load before {machine.load_before:g}."
        )
        for skipped in run.skipped:
            yield f"  - {skipped.launcher} was skipped: {skipped.reason}."


def _summary(measures: Sequence[MeasureResult]) -> Iterable[str]:
    yield "| measure | unit | best of the others | Resile | wanted | |"
    yield "|---|---|---|---|---|---|"
    for measure in measures:
        others = [one for one in measure.series if one.family != OURS]
        ours = [one for one in measure.series if one.family == OURS]
        verdict = {True: "met", False: "**missed**", None: ""}[measure.met]
        cells = (measure.title, measure.unit, _best(others), _best(ours, label=False))
        yield f"| {' | '.join(cells)} | {measure.wanted} | {verdict} |"


def _best(series: Sequence[Series], *, label: bool = True) -> str:
    if not series:
        return "not measured"
    best = min(series, key=lambda one: one.median)
    if math.isinf(best.median):
        return "mostly failed"
    return f"{number(best.median)} ({best.label})" if label else number(best.median)


def _detail(measure: MeasureResult) -> Iterable[str]:
    yield f"**{measure.title}**"
    yield ""
    yield f"| launcher | median, {measure.unit} | every value |"
    yield "|---|---|---|"
    for series in measure.series:
        yield f"| {series.label} | {number(series.median)} | {every_value(series)} |"
    if measure.met is not None:
        yield ""
        word = "Met" if measure.met else "Missed"
        yield f"Wanted: {measure.wanted}. {word}: {measure.verdict}."
