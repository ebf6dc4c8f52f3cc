"""The decisions of an evaluation are not lost by a crash right after it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.local.ecosystem.disturbed import Disturbed

pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def evaluated(folder: Path, strategy: str, dies_in: str = "") -> dict[str, Any]:
    """A training of one worker, evaluated by steps or epochs, until it is stopped early."""
    folder.mkdir()
    with closing(Disturbed(folder)) as job:
        job.train(
            "hf_trainer.py", nproc=1, EVALUATES=strategy, DIES_IN=dies_in, SAMPLES="20", EPOCHS="6"
        )
        result = job.ends()
        assert job.round == 1 + len([one for one in dies_in.split(",") if one])
        return result


@pytest.mark.parametrize(
    ("strategy", "dies_in", "stops_at"),
    [
        ("steps", "on_evaluate:10,on_save:15", 25),
        ("epoch", "on_evaluate:20,on_epoch_begin:20", 50),
    ],
)
def test_a_kill_after_an_evaluation_changes_nothing(
    tmp_path: Path, strategy: str, dies_in: str, stops_at: int
) -> None:
    """Snapshots, evaluations and saves come after the same steps. The best model, the patience of
    early stopping and the weights are the same as without the kills."""
    undisturbed = evaluated(tmp_path / "undisturbed", strategy)
    killed = evaluated(tmp_path / "killed", strategy, dies_in)
    assert killed == undisturbed
    assert undisturbed["step"] == stops_at
