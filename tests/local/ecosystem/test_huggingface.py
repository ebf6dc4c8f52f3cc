"""The Hugging Face Trainer goes on after a crash as if there had been none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.ecosystem.disturbed import Disturbed

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SCRIPT = "hf_trainer.py"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What training comes to when nothing happens: 61 samples, 4 a step, 4 epochs."""
    job = Disturbed(tmp_path_factory.mktemp("undisturbed"))
    try:
        job.train(SCRIPT)
        yield job.ends()
    finally:
        job.close()


def test_killed_workers_go_on_from_memory_to_the_same_weights(
    disturbed: Disturbed, undisturbed: dict[str, Any]
) -> None:
    disturbed.train(SCRIPT, PAUSE="0.05")
    first = disturbed.kill_at(12, rank=0)
    disturbed.kill_at(38, rank=1, round=first)
    disturbed.hurry()
    assert disturbed.ends() == undisturbed
    assert [r.what for r in disturbed.resumptions()] == ["resumed from memory"]
    disturbed.trained_each_sample_once()


def test_undisturbed_training_takes_the_epochs_that_were_asked_for(
    undisturbed: dict[str, Any],
) -> None:
    assert (undisturbed["step"], undisturbed["epoch"]) == (64, 4.0)


def test_a_finished_training_is_not_trained_again(disturbed: Disturbed, tmp_path: Path) -> None:
    storage = str(tmp_path / "checkpoints")
    disturbed.train(SCRIPT, CHECKPOINTS=storage, SAMPLES="20", EPOCHS="2")
    before = disturbed.ends()
    assert before["step"] == 10
    taken = len(disturbed.records())
    disturbed.nodes.clear()
    disturbed.train(SCRIPT, CHECKPOINTS=storage, SAMPLES="20", EPOCHS="2")
    assert disturbed.ends() == before
    assert [r for r in disturbed.records()[taken:] if r.what == "step"] == []


@pytest.mark.parametrize("batch", ["", "8"], ids=["batch of the arguments", "global batch kept"])
def test_every_sample_is_trained_once_when_the_world_changes(
    disturbed: Disturbed, batch: str
) -> None:
    for _ in range(2):
        disturbed.train(SCRIPT, "--nnodes", "1:2", nproc=1, PAUSE="0.05", GLOBAL_BATCH=batch)
    first = disturbed.reached(12, world=2)
    disturbed.lose_node(1)
    disturbed.reached(20, world=1, round=first)
    disturbed.hurry()
    result = disturbed.ends()
    assert result["epoch"] == 4.0
    if batch:
        assert result["step"] == 4 * 8
    disturbed.trained_each_sample_once()
