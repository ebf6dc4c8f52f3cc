"""The image of a run: a panel per measure, a bar per launcher, a dot per value, on a log scale.

A bar ends at the median. A launcher that mostly failed has an open bar across the panel with the
reason written in it, so that a failure is not mistaken for a fast recovery.
"""

import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.report import number
from bench.results import MeasureResult, Run, Series

FAMILY_COLOURS = {"torchrun": "#d9622b", "dlrover": "#7b61c9", "resile": "#1a9c74"}
_FLOOR = 1e-3


def plot(run: Run, path: Path) -> None:
    """Draw a run into a PNG file."""
    rows = [max(1, len(measure.series)) for measure in run.measures]
    figure, panels = plt.subplots(
        len(rows),
        1,
        figsize=(9, 0.9 * len(rows) + 0.32 * sum(rows)),
        gridspec_kw={"height_ratios": rows},
        squeeze=False,
        layout="constrained",
    )
    for axes, measure in zip(panels[:, 0], run.measures, strict=True):
        _panel(axes, measure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axes: Axes, measure: MeasureResult) -> None:
    axes.set_title(measure.title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xscale("log")
    values = [value for series in measure.series for value in series.values]
    low, high = _limits(values)
    axes.set_xlim(low, high)
    for place, series in enumerate(measure.series):
        _bar(axes, series, place=place, limits=(low, high))
    axes.set_yticks(range(len(measure.series)), [series.label for series in measure.series])
    axes.set_ylim(len(measure.series) - 0.4, -0.6)
    axes.set_xlabel(measure.unit, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_axisbelow(True)


def _bar(axes: Axes, series: Series, *, place: int, limits: tuple[float, float]) -> None:
    low, high = limits
    colour = FAMILY_COLOURS[series.family]
    if math.isinf(series.median):
        axes.barh(place, high - low, left=low, fill=False, edgecolor=colour, hatch="///", alpha=0.5)
        reason = "; ".join(series.failures)
        axes.text(low * 1.1, place, reason, va="center", fontsize=8, backgroundcolor="white")
    else:
        median = max(series.median, low)
        axes.barh(place, median - low, left=low, color=colour, alpha=0.75, height=0.62)
        beyond = max(median, *series.values)
        axes.text(beyond * 1.06, place, number(series.median), fontsize=8, va="center")
    dots = [max(value, low) for value in series.values]
    axes.plot(dots, [place] * len(dots), "o", color="black", markersize=3, alpha=0.6)


def _limits(values: list[float]) -> tuple[float, float]:
    """Axis limits: whole decades around all values; zeros are drawn on the left edge."""
    seen = [max(value, _FLOOR) for value in values] or [1.0]
    low = 10 ** math.floor(math.log10(min(seen) * 0.7))
    high = 10 ** math.ceil(math.log10(max(seen) * 1.4))
    return low, high
