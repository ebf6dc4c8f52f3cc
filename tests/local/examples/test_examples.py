"""The examples run as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.local.commands import PATIENCE, wait_for
from tests.local.jobs import Job

EXAMPLES = Path(__file__).parents[3] / "examples"

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run an example to its end; returns its output."""
    job = Job(tmp_path)

    def run_example(name: str, *args: str, nproc: int) -> str:
        script = str(EXAMPLES / name / "train.py")
        node = job.start(script=script, args=args, nproc=nproc, endpoint=False)
        wait_for(
            lambda: node.process.poll() is not None, f"the end of {name}", timeout=2 * PATIENCE
        )
        assert node.process.returncode == 0, node.output
        return node.output

    with closing(job):
        yield run_example


def losses(output: str) -> list[float]:
    """The losses, in the order in which they were printed."""
    return [float(found) for found in re.findall(r"loss = ([\d.]+)", output)]


def goes_on_alone(run: Run, name: str, checkpoints: Path) -> str:
    """Two workers train two epochs of a trainer's example, then one worker two more; returns the
    output of that one."""
    folder = ("--checkpoints", str(checkpoints))
    first = run(name, *folder, "--epochs", "2", nproc=2)
    assert first.count("trained 64 steps, 2 epochs") == 1
    second = run(name, *folder, "--epochs", "4", nproc=1)
    assert "resumed at step 60 from storage" in second
    assert "trained 128 steps, 4 epochs" in second
    return second


def test_digits_are_learned(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    output = run("digits", "--checkpoints", str(folder), nproc=2)
    accuracy = re.search(r"accuracy = ([\d.]+) after 300 steps", output)
    assert accuracy is not None, output
    assert float(accuracy[1]) > 0.9
    assert not folder.exists(), "a finished run is not resumed"


def test_a_sharded_transformer_goes_on_with_another_number_of_workers(
    run: Run, tmp_path: Path
) -> None:
    folder = ("--checkpoints", str(tmp_path / "checkpoints"))
    first = run("fsdp", "--steps", "60", *folder, nproc=2)
    assert "training with 2 workers from step 0" in first
    second = run("fsdp", "--steps", "120", *folder, nproc=1)
    assert "training with 1 workers from step 60" in second
    assert losses(second)[-1] < 0.7 * losses(first)[-1] < losses(first)[0]
    third = run("fsdp", "--steps", "120", *folder, nproc=1)
    assert "resumed at step 120 from storage" in third
    assert "nothing is left to do: 120 steps were trained before" in third


def test_the_hugging_face_trainer_learns_and_knows_when_it_is_done(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    goes_on_alone(run, "huggingface", tmp_path / "checkpoints")


def test_lightning_learns_and_goes_on_with_another_number_of_workers(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("lightning")
    output = goes_on_alone(run, "lightning", tmp_path / "checkpoints")
    accuracies = [float(found) for found in re.findall(r"accuracy = ([\d.]+)", output)]
    assert len(accuracies) == 3  # the epoch that was interrupted, and two more
    assert accuracies[-1] > 0.9
