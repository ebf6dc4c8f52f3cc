"""Results are kept from one part of a campaign to the next."""

from __future__ import annotations

from pathlib import Path

from bench.results import MeasureResult, Run, load, now, save, this_machine


def run_with(*measures: tuple[str, str]) -> Run:
    results = [
        MeasureResult(name, title, "s", "shown", "", met=None, series=[])
        for name, title in measures
    ]
    return Run("recovery", now(), this_machine(()), results)


def test_measures_that_a_later_part_did_not_repeat_stay(tmp_path: Path) -> None:
    path = tmp_path / "recovery.json"
    save(run_with(("a", "old"), ("b", "old")), path)
    save(run_with(("b", "new"), ("c", "new")), path)
    kept = {result.measure: result.title for result in load(path).measures}
    assert kept == {"a": "old", "b": "new", "c": "new"}
