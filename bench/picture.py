"""The picture of recovery: each step around a kill -9, and the pause for four kinds of fault.

Drawn from the results of `python -m bench recovery` in two versions, for light and dark pages:
recovery.png and recovery-dark.png. It contains only values that the run measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.results import MeasureResult, Run, Series, Strip

# The measures in the picture, with short titles.
_PANELS = {
    "worker-1x2": "a worker is killed\n1 node x 2",
    "worker-2x1": "a worker is killed\n2 nodes x 1",
    "node-lost": "a node is killed\n1:2 nodes",
    "join-pause": "a node joins\n1:2 nodes",
}
_BEFORE, _AFTER = 0.6, 4.0
_STRIP_MEASURE = "worker-1x2"
_TUNED = "-tuned"


@dataclass(frozen=True)
class Theme:
    """Colours for one kind of page."""

    suffix: str
    page: str
    text: str
    faint: str
    families: dict[str, str]


LIGHT = Theme(
    suffix="",
    page="#ffffff",
    text="#1f2328",
    faint="#8c959f",
    families={"torchrun": "#d9622b", "dlrover": "#7b61c9", "resile": "#12876a"},
)
DARK = Theme(
    suffix="-dark",
    page="#0d1117",
    text="#e6edf3",
    faint="#7d8590",
    families={"torchrun": "#f0883e", "dlrover": "#a58df5", "resile": "#3fcf9e"},
)


def draw_pictures(run: Run, folder: Path) -> list[Path]:
    """Write both versions; return the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(run, theme, folder / f"recovery{theme.suffix}.png") for theme in (LIGHT, DARK)]


def _draw(run: Run, theme: Theme, path: Path) -> Path:
    measures = [one for one in run.measures if one.measure in _PANELS]
    strips = _family_strips(run.strips)
    style = {
        "text.color": theme.text,
        "axes.labelcolor": theme.text,
        "xtick.color": theme.text,
        "ytick.color": theme.text,
        "font.size": 10,
    }
    with mpl.rc_context(style):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(10, 6.4), height_ratios=[1.1, 1], layout="constrained"
        )
        figure.get_layout_engine().set(h_pad=0.14)
        figure.set_facecolor(theme.page)
        for axes in (above, below):
            _plain(axes, theme)
        _steps(above, strips, theme)
        _bars(below, measures, theme)
        figure.savefig(path, dpi=160)
        plt.close(figure)
    return path


def _steps(axes: Axes, strips: Sequence[Strip], theme: Theme) -> None:
    """Draw a lane per rank, a tick per step, and the pause after the kill as text in the gap."""
    for row, strip in enumerate(strips):
        colour = theme.families[strip.family]
        for rank in sorted({rank for _, rank in strip.steps}):
            lane = row + (-0.17 if rank == 0 else 0.17)
            times = [time for time, owner in strip.steps if owner == rank]
            axes.vlines(times, lane - 0.13, lane + 0.13, color=colour, linewidth=1.1)
        axes.axvspan(
            0, strip.recovery, *_row_share(row, len(strips)), color=colour, alpha=0.13, linewidth=0
        )
        inside = strip.recovery > (_BEFORE + _AFTER) * 0.2
        place = strip.recovery / 2 if inside else strip.recovery + 0.06
        label = axes.text(
            min(place, _AFTER / 2),
            row,
            _seconds(strip.recovery),
            ha="center" if inside else "left",
            va="center",
            fontweight="bold",
            color=theme.text,
        )
        label.set_bbox({"facecolor": theme.page, "edgecolor": "none", "alpha": 0.85, "pad": 2})
    axes.axvline(0, color=theme.text, linewidth=1)
    axes.set_yticks(range(len(strips)), [strip.label.replace(", ", "\n") for strip in strips])
    axes.set_ylim(len(strips) - 0.5, -0.5)
    axes.set_xlim(-_BEFORE, _AFTER)
    axes.set_xlabel(
        "seconds from kill -9 of rank 1; each tick is a training step of one of two ranks"
    )
    _title(axes, "Training steps around the death of a worker")


def _bars(axes: Axes, measures: Sequence[MeasureResult], theme: Theme) -> None:
    """Draw a group per fault and a bar per launcher family, on a log scale."""
    families = list(theme.families)
    width = 0.8 / len(families)
    floor = 0.03
    for group, measure in enumerate(measures):
        for place, family in enumerate(families):
            x = group + (place - (len(families) - 1) / 2) * width
            _family_bar(axes, measure, family, x=x, width=width * 0.86, floor=floor, theme=theme)
    axes.set_yscale("log")
    axes.set_ylim(floor, 300)
    axes.set_yticks([0.1, 1, 10, 100], ["0.1 s", "1 s", "10 s", "100 s"])
    axes.minorticks_off()
    axes.grid(axis="y", color=theme.faint, alpha=0.25, linewidth=0.8)
    names = [_PANELS[measure.measure] for measure in measures]
    axes.set_xticks(range(len(measures)), names)
    axes.tick_params(axis="x", length=0)
    _title(axes, "Seconds without training, median (log scale)")


def _family_bar(
    axes: Axes,
    measure: MeasureResult,
    family: str,
    *,
    x: float,
    width: float,
    floor: float,
    theme: Theme,
) -> None:
    members = [series for series in measure.series if series.family == family]
    untuned = [series for series in members if not series.launcher.endswith(_TUNED)]
    if not untuned:
        return
    colour, ink = theme.families[family], theme.page
    best = min(untuned, key=lambda series: series.median)
    if math.isinf(best.median):
        axes.text(x, floor * 1.2, "never", ha="center", va="bottom", color=colour, rotation=90)
        return
    axes.bar(x, best.median - floor, width, bottom=floor, color=colour)
    text = f"{_family_label(best)}\n{_seconds(best.median)}"
    axes.text(x, best.median * 1.12, text, ha="center", va="bottom", fontsize=8.5)
    for series in members:
        if series.launcher.endswith(_TUNED) and not math.isinf(series.median):
            axes.hlines(series.median, x - width / 2, x + width / 2, color=theme.page, linewidth=2)
            text = f"tuned\n{_seconds(series.median)}"
            axes.text(x, series.median * 0.85, text, ha="center", va="top", fontsize=7.5, color=ink)


def _family_strips(strips: Sequence[Strip]) -> list[Strip]:
    """The fastest variant of each family, in the order they were measured."""
    fastest: dict[str, Strip] = {}
    for strip in strips:
        if strip.measure != _STRIP_MEASURE:
            continue
        known = fastest.get(strip.family)
        if known is None or strip.recovery < known.recovery:
            fastest[strip.family] = strip
    return list(fastest.values())


def _family_label(series: Series) -> str:
    return series.label.partition(",")[0]


def _seconds(value: float) -> str:
    """Seconds with about two significant digits."""
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def _row_share(row: int, rows: int) -> tuple[float, float]:
    """Bottom and top of a row as fractions of the panel's height, counted from the bottom."""
    return 1 - (row + 0.86) / rows, 1 - (row + 0.14) / rows


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", pad=10)


def _plain(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor("none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.faint)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
