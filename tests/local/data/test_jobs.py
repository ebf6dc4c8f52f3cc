"""Real jobs: nothing hangs at the end of an epoch, and nothing is trained twice after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.jobs import Job

HERE = Path(__file__).parent


def checked(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """`resile data check`."""
    return subprocess.run(
        [sys.executable, "-m", "resile", "data", "check", str(folder), *flags],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("length", "batch"), [(13, 2), (9, 4)])
def test_ranks_that_run_out_of_data_do_not_hang_the_others(
    job: Job, tmp_path: Path, length: int, batch: int
) -> None:
    """The first leaves one rank a sample less, the second leaves one none at all."""
    node = job.start(
        "--standalone",
        script=str(HERE / "uneven.py"),
        nproc=2,
        endpoint=False,
        LENGTH=str(length),
        BATCH=str(batch),
        RESILE_LEDGER=str(tmp_path / "ledger"),
    )
    assert node.wait() == 0, node.output
    result = checked(tmp_path / "ledger", "--epochs", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"epoch 1: complete, each of {length} trained exactly once" in result.stdout


def test_a_killed_worker_costs_no_sample_and_repeats_none(job: Job, tmp_path: Path) -> None:
    node = job.start(
        "--standalone",
        script=str(HERE / "crashing.py"),
        nproc=2,
        endpoint=False,
        DIES_AT="11",
        STATE_FILE=str(tmp_path / "state.json"),
        RESILE_LEDGER=str(tmp_path / "ledger"),
    )
    assert node.wait() == 0, node.output
    result = checked(tmp_path / "ledger", "--epochs", "2", "-o", "json")
    assert result.returncode == 0, result.stdout + result.stderr
    verdict = json.loads(result.stdout)
    (stream,) = verdict["streams"]
    assert verdict["sound"]
    assert stream["rounds"] == 2
    assert stream["lost"] >= 2
    assert [epoch["trained"] for epoch in stream["epochs"]] == [103, 103]
