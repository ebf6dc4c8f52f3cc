"""Tables, images and the file they come from."""

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from bench.picture import draw_pictures
from bench.plots import plot
from bench.report import every_value, number, show
from bench.results import (
    MeasureResult,
    Outcome,
    Run,
    Series,
    Skipped,
    Strip,
    load,
    save,
    this_machine,
)
from bench.scale.curves import plot_curves


def series(family: str, *values: float | None) -> Series:
    outcomes = [Outcome(value, "" if value is not None else "no step in 60 s") for value in values]
    return Series(family, family, family.title(), outcomes)


@pytest.fixture
def run() -> Run:
    measures = [
        MeasureResult(
            measure=name,
            title=f"title of {name}",
            unit="s",
            wanted="a tenth",
            verdict="0.05 of it",
            met=True,
            series=[
                series("torchrun", 2.5, None, 2.7),
                series("dlrover", None),
                series("resile", 0),
            ],
            size=size,
        )
        for name, size in (("worker-1x2", None), ("node-lost", None), ("formed-250", 250))
    ]
    strip = Strip("worker-1x2", "resile", "resile", "Resile", 0.2, [(-0.1, 0), (0.2, 0), (0.2, 1)])
    skipped = Skipped("dlrover-tuned", "no package index")
    return Run("recovery", "now", this_machine(), measures, [strip], [skipped])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.1234, "0.123"),
        (2.5, "2.50"),
        (46.51, "46.5"),
        (120.4, "120"),
        (math.inf, "-"),
    ],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_failures_are_told_beside_the_values() -> None:
    said = every_value(series("torchrun", 2.5, None, 2.7))
    assert said == "2.50, -, 2.70; no step in 60 s, 1 of 3"


def test_a_run_survives_being_saved(run: Run, tmp_path: Path) -> None:
    save(run, tmp_path / "deep" / "run.json")
    assert load(tmp_path / "deep" / "run.json") == run


def test_a_table_shows_failures_verdict_and_who_was_skipped(run: Run) -> None:
    out = io.StringIO()
    show(run, Console(file=out, width=200))
    text = out.getvalue()
    assert "no step in 60 s, 1 of 3" in text
    assert "met: 0.05 of it" in text
    assert "dlrover-tuned was skipped: no package index" in text


def test_images_are_drawn_also_from_failures(run: Run, tmp_path: Path) -> None:
    plot(run, tmp_path / "run.png")
    plot_curves(run, tmp_path / "curves.png")
    drawn = [tmp_path / "run.png", tmp_path / "curves.png", *draw_pictures(run, tmp_path)]
    assert len(drawn) == 4
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
