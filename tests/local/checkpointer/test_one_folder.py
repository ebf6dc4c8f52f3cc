"""Rounds and jobs that share one checkpoint folder: real workers, each with its own writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.checkpointer.workers import Start

pytestmark = pytest.mark.timeout(200)


def test_of_two_rounds_that_train_at_once_only_the_later_ones_steps_count(start: Start) -> None:
    first = start(RESILE_RUN="a", RESILE_ROUND="1")
    assert first.told("restore")["step"] == 0
    assert first.told("save 10 1.0")["error"] == ""
    second = start(RESILE_RUN="a", RESILE_ROUND="2")
    assert second.told("restore")["step"] == 10
    assert first.told("save 15 1.5")["error"] == ""  # the second one does not train yet
    assert second.told("save 12 2.0")["error"] == ""
    refused = first.told("save 20 1.7")["error"]
    assert refused.startswith("NotSaved: step 20 is not on storage")
    assert "round 1 was superseded: round 2 continued from step 10" in refused
    third = start(RESILE_RUN="a", RESILE_ROUND="3").told("restore")
    assert (third["step"], third["value"]) == (12, 2.0)
    assert "step 15 in storage: round 1 was superseded" in third["problems"][0]


def test_a_second_job_is_told_whose_folder_it_is(start: Start, tmp_path: Path) -> None:
    digits = start(TORCHELASTIC_RUN_ID="digits")
    digits.told("restore")
    assert digits.told("save 10 1.0")["error"] == ""
    letters = start(TORCHELASTIC_RUN_ID="letters")
    assert letters.told("restore")["step"] == 10  # reading is always allowed
    claims = sorted((tmp_path / "checkpoints" / "fence").iterdir())
    refused = letters.told("save 11 2.0")["error"]
    assert refused.startswith("FolderTaken: ")
    assert "holds checkpoints of job 'digits', and this is job 'letters'" in refused
    assert sorted((tmp_path / "checkpoints" / "fence").iterdir()) == claims
    for number, job in enumerate(("digits", "none", "8127346"), start=11):
        again = start(TORCHELASTIC_RUN_ID=job)
        again.told("restore")
        assert again.told(f"save {number} 1.0")["error"] == ""
    taking = start(TORCHELASTIC_RUN_ID="letters", RESILE_TAKE_OVER="1")
    assert taking.told("restore")["step"] == 13
    assert taking.told("save 20 2.0")["error"] == ""
