"""The image of a scale run: time over the number of agents, both on log scales."""

import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.plots import FAMILY_COLOURS
from bench.results import Run

_PANELS = {
    "formed": "form a round",
    "reformed": "lose one and form it again",
    "master_cpu": "CPU of the master for both",
}


def plot_curves(run: Run, path: Path) -> None:
    """Draw a panel per phase and a line per system; dots are single trials."""
    figure, panels = plt.subplots(1, len(_PANELS), figsize=(12, 4), layout="constrained")
    for axes, (field, title) in zip(panels, _PANELS.items(), strict=True):
        _panel(axes, run, field)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("agents", fontsize=9)
        axes.set_ylabel("s", fontsize=9)
    panels[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axes: Axes, run: Run, field: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    sizes: set[int] = set()
    for measure in run.measures:
        if measure.size is None or not measure.measure.startswith(f"{field}-"):
            continue
        sizes.add(measure.size)
        for series in measure.series:
            colour = FAMILY_COLOURS[series.family]
            dots = series.values
            axes.plot([measure.size] * len(dots), dots, "o", color=colour, markersize=3, alpha=0.5)
            if not math.isinf(series.median):
                key = (series.label, colour)
                lines.setdefault(key, []).append((measure.size, series.median))
    for (label, colour), points in lines.items():
        axes.plot(*zip(*points, strict=True), color=colour, label=label, linewidth=1.6)
    axes.set_xticks(sorted(sizes), [f"{size:,}" for size in sorted(sizes)])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
