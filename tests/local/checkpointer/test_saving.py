"""Guarantees of a save without an agent: when it returns, how often, and its messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resile.checkpoint.catalog import CheckpointCatalog, Depth
from resile.checkpoint.storage.base import open_storage
from tests.local.train.ranks import run_ranks

SCRIPT = Path(__file__).parent / "scripts" / "saving.py"


def run(what: str, checkpoints: Path, folder: Path, *, world: int = 2) -> list[str]:
    """Run the ranks and return the output of each."""
    run_ranks(str(SCRIPT), what, str(checkpoints), world=world, meeting=folder / "meeting")
    logs = [folder.with_name(f"{folder.name}-rank{rank}.log") for rank in range(world)]
    return [log.read_text() for log in logs]


def steps(checkpoints: Path) -> list[int]:
    """The steps that have an intact checkpoint."""
    catalog = CheckpointCatalog(open_storage(str(checkpoints)))
    return sorted(
        one.step for one in catalog.checkpoints() if not catalog.damages(one, Depth.CHECKSUMS)
    )


def test_an_interval_that_is_chosen_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    said, nothing = run("intervals", tmp_path / "checkpoints", tmp_path)
    snapshots = [2, *range(8, 61, 6)]
    due, last = [], 0
    for step in snapshots:
        if step // 10 > last // 10:
            due.append(step)
            last = step
    assert steps(tmp_path / "checkpoints") == due == [14, 20, 32, 44, 50]
    choice = r"resile: snapshots every 6 steps \([\d.e-]+ s\): a stall of .* ms, a failure every "
    assert len(re.findall(choice, said)) == 1, said
    assert "snapshots" not in nothing


def test_checkpoints_are_written_of_every_so_many_steps(tmp_path: Path) -> None:
    run("multiples", tmp_path / "checkpoints", tmp_path)
    assert steps(tmp_path / "checkpoints") == [12, 24, 36, 48, 60]


def test_a_save_that_fails_on_one_rank_is_an_error_on_all(small_disk: Path, tmp_path: Path) -> None:
    run("one_disk_is_full", small_disk, tmp_path)
    assert steps(small_disk) == [1, 2]


def test_a_step_that_is_saved_again_is_restored_as_it_was_last(tmp_path: Path) -> None:
    run("again", tmp_path / "checkpoints", tmp_path)
    assert steps(tmp_path / "checkpoints") == [1]


def test_a_rank_without_room_says_so_and_its_checkpoints_are_restored(tmp_path: Path) -> None:
    first, second = run("no_room", tmp_path / "checkpoints", tmp_path)
    missing = "no snapshots in memory: "
    assert missing not in first
    assert second.count(f"resile: rank 1: {missing}") == 1
    assert "instead training waits for each write" in second


def test_what_a_rank_cannot_write_by_itself_is_said(small_disk: Path, tmp_path: Path) -> None:
    said = run("no_room_and_a_full_disk", small_disk, tmp_path)
    for rank, text in enumerate(said):
        assert f"resile: rank {rank}: no checkpoint of step 20: " in text, said
    assert steps(small_disk) == []


@pytest.mark.parametrize("end", ["closed", "left_open"])
def test_a_last_checkpoint_that_cannot_be_written_after_the_scripts_end_is_said(
    end: str, small_disk: Path
) -> None:
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), end, str(small_disk)],
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,  # the writer process has it, too: this waits for its end
        text=True,
        timeout=120,
        check=True,
    )
    said = re.findall(r"^resile: checkpoint of step 1 was not written: (.*)$", done.stderr, re.M)
    assert len(said) == 1, done.stderr
    assert "No space left on device" in said[0]
    assert steps(small_disk) == []
