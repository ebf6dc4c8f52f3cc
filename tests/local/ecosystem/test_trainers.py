"""The trainers of other libraries resume after a crash as if there had been none."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.local.ecosystem.disturbed import Disturbed


@dataclass(frozen=True)
class Library:
    """A library with a trainer: its test script, and the script's result."""

    script: str
    needs: tuple[str, ...]
    """The modules that must be importable."""
    counts: dict[str, int]
    """Part of the result of four epochs, however many workers trained them."""
    with_global_batch: dict[str, str] = field(default_factory=dict)
    """Further variables when a global batch is kept."""

    def trained_four_epochs(self, result: dict[str, Any]) -> None:
        """Check that the result is that of four epochs."""
        assert {name: result[name] for name in self.counts} == self.counts


LIBRARIES = {
    "huggingface": Library(
        "hf_trainer.py", needs=("transformers", "accelerate"), counts={"epoch": 4}
    ),
    "lightning": Library(
        "lightning_trainer.py",
        needs=("lightning",),
        counts={"epoch": 4, "validations": 1 + 2 * 4},  # Lightning's own check comes first
        with_global_batch={"READERS": "1"},  # loader processes of a worker
    ),
}


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    found = LIBRARIES[request.param]
    for module in found.needs:
        pytest.importorskip(module)
    return found


@pytest.fixture(scope="module")
def undisturbed(library: Library, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of an undisturbed training: 61 samples, 4 a step, 4 epochs."""
    with closing(Disturbed(tmp_path_factory.mktemp("undisturbed"))) as job:
        job.preloads = False
        job.train(library.script)
        return job.ends()


def test_killed_workers_go_on_from_memory_to_the_same_weights(
    library: Library, disturbed: Disturbed, undisturbed: dict[str, Any]
) -> None:
    disturbed.train(library.script, PAUSE="0.05")
    first = disturbed.kill_at(12, rank=0)
    disturbed.kill_at(38, rank=1, round=first)
    disturbed.hurry()
    assert disturbed.ends() == undisturbed
    assert [r.what for r in disturbed.resumptions()] == ["resumed from memory"]
    disturbed.trained_each_sample_once()


def test_undisturbed_training_takes_the_epochs_that_were_asked_for(
    library: Library, undisturbed: dict[str, Any]
) -> None:
    assert undisturbed["step"] == 64
    library.trained_four_epochs(undisturbed)


def test_a_finished_training_is_not_trained_again(
    library: Library, disturbed: Disturbed, tmp_path: Path
) -> None:
    options = {"CHECKPOINTS": str(tmp_path / "checkpoints"), "SAMPLES": "20", "EPOCHS": "2"}
    disturbed.train(library.script, nproc=2, **options)
    before = disturbed.ends()
    assert before["step"] == 10
    taken = len(disturbed.records())
    disturbed.nodes.clear()
    disturbed.train(library.script, nproc=2, **options)
    assert disturbed.ends() == before
    assert [r for r in disturbed.records()[taken:] if r.what == "step"] == []
    said = disturbed.nodes[0].output
    assert said.count("training was complete at step 10: nothing is left to do") == 1


@pytest.mark.parametrize("batch", ["", "8"], ids=["batch of the trainer", "global batch kept"])
def test_every_sample_is_trained_once_when_the_world_changes(
    library: Library, disturbed: Disturbed, batch: str
) -> None:
    options = {"PAUSE": "0.05", "GLOBAL_BATCH": batch}
    if batch:
        options |= library.with_global_batch
    for _ in range(2):
        disturbed.train(library.script, "--nnodes", "1:2", nproc=1, **options)
    first = disturbed.reached(12, world=2)
    disturbed.lose_node(1)
    disturbed.reached(20, world=1, round=first)
    disturbed.hurry()
    result = disturbed.ends()
    library.trained_four_epochs(result)
    if batch:
        assert result["step"] == 4 * 8
    disturbed.trained_each_sample_once()
