"""Tables for the terminal: each measure with every launcher's median and every value."""

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.results import MeasureResult, Run, Series
from bench.targets import OURS


def show(run: Run, console: Console) -> None:
    """Print a run: the machine, a table per measure, and the skipped launchers."""
    machine = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    console.print(
        f"{run.started} · {machine.processor}, {machine.cores} cores, "
        f"{machine.memory_gib:g} GiB · Python {machine.python}, {versions} · "
        f"load before {machine.load_before:g}",
        style="dim",
        highlight=False,
    )
    for measure in run.measures:
        console.print(table(measure))
    for skipped in run.skipped:
        console.print(f"[yellow]{skipped.launcher} was skipped:[/] {skipped.reason}")


def table(measure: MeasureResult) -> Table:
    """The table of one measure: a row per launcher, Resile's in bold."""
    grid = Table(title=measure.title, caption=_caption(measure), title_justify="left")
    grid.add_column("launcher", no_wrap=True)
    grid.add_column(f"median, {measure.unit}", justify="right", no_wrap=True)
    grid.add_column("every value")
    for series in measure.series:
        style = "bold green" if series.family == OURS else ""
        grid.add_row(series.label, number(series.median), every_value(series), style=style)
    return grid


def number(value: float) -> str:
    """A figure with three significant digits; a dash if it is infinite."""
    if math.isinf(value):
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def every_value(series: Series) -> str:
    """All values in the order they were measured, and the count and reason of missing ones."""
    shown = ", ".join(
        "-" if outcome.value is None else number(outcome.value) for outcome in series.outcomes
    )
    failures = [
        f"{note}, {count} of {len(series.outcomes)}" for note, count in series.failures.items()
    ]
    return "; ".join([shown, *failures])


def _caption(measure: MeasureResult) -> Text:
    text = Text(f"wanted: {measure.wanted}")
    if measure.met is None:
        return text.append(f" ({measure.verdict})") if measure.verdict else text
    word, style = ("met", "green") if measure.met else ("missed", "red")
    return text.append(". ").append(f"{word}: {measure.verdict}", style=style)
