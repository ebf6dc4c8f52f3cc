"""Results written into the documentation."""

from pathlib import Path

import pytest

from bench.document import BEGIN, END, MarksMissing, publish
from bench.results import MeasureResult, Outcome, Run, Series, Skipped, this_machine


def run(value: float) -> Run:
    series = [
        Series(
            "torchrun", "torchrun", "torchrun", [Outcome(2.5), Outcome(None, "agent exited (1)")]
        ),
        Series("dlrover", "dlrover", "DLRover", [Outcome(3.5), Outcome(3.5)]),
        Series("resile", "resile", "Resile", [Outcome(value), Outcome(value)]),
    ]
    measure = MeasureResult("m", "a title", "s", "a tenth", "0.04 of it", True, series)
    return Run("recovery", "now", this_machine(), [measure], skipped=[Skipped("x", "no index")])


def test_results_replace_the_ones_before_and_nothing_else(tmp_path: Path) -> None:
    document = tmp_path / "doc.md"
    document.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    publish([run(0.111)], document)
    publish([run(0.222)], document)
    text = document.read_text()
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert "old" not in text
    assert "0.111" not in text
    assert "| a title | s | 3.50 (DLRover) | 0.222 | a tenth | met |" in text
    assert "| torchrun | - | 2.50, -; agent exited (1), 1 of 2 |" in text
    assert "x was skipped: no index" in text


def test_a_document_without_marks_is_left_as_it_is(tmp_path: Path) -> None:
    document = tmp_path / "doc.md"
    document.write_text("nothing here")
    with pytest.raises(MarksMissing):
        publish([run(0.1)], document)
    assert document.read_text() == "nothing here"
