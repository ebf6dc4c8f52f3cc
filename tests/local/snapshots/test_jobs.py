"""Whole jobs: agents keep the snapshots of their workers and of other nodes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from tests.checkpoints import newest_whole
from tests.local.commands import wait_for
from tests.local.jobs import Job, is_alive
from tests.local.snapshots.conftest import ROOT
from tests.local.snapshots.memory import holders

TRAINER = str(Path(__file__).parent / "trainer.py")


@pytest.fixture
def training(job: Job, tmp_path: Path) -> Job:
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    job.environment.update(EXCHANGE=str(exchange), PYTHONPATH=str(ROOT))
    return job


def noted(job: Job, name: str, round: int, rank: int) -> Any:
    path = Path(job.environment["EXCHANGE"]) / f"{name}-{round}-{rank}.json"
    return json.loads(path.read_text()) if path.exists() else None


def rounds(job: Job) -> list[int]:
    """Rounds in which a worker recorded what it found."""
    folder = Path(job.environment["EXCHANGE"])
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("held-*.json"))


def step(job: Job, round: int, rank: int = 0) -> int:
    status = noted(job, "status", round, rank)
    return int(status["step"]) if status else 0


def test_a_worker_killed_finds_its_snapshots_in_the_next_round(training: Job) -> None:
    training.start("--nnodes", "1", script=TRAINER)
    wait_for(lambda: rounds(training), "the first round")
    (first,) = rounds(training)
    wait_for(lambda: step(training, first) >= 5, "some snapshots")
    os.kill(noted(training, "status", first, 0)["pid"], signal.SIGKILL)
    second = wait_for(lambda: [n for n in rounds(training) if n > first], "the next round")[0]
    before = step(training, first)
    held = noted(training, "held", second, 0)
    assert all(one["whole"] for one in held)
    assert max(one["step"] for one in held if one["name"].startswith("rank")) >= before
    wait_for(lambda: step(training, second) > before, "training to go on")


def test_a_lost_nodes_parts_are_in_another_nodes_memory(training: Job) -> None:
    nodes = [training.start("--nnodes", "1:2", script=TRAINER) for _ in range(2)]

    def both() -> int:
        for number in reversed(rounds(training)):
            status = [noted(training, "status", number, rank) for rank in (0, 1)]
            if all(one and (one["copied"] or 0) >= 3 for one in status):
                return number
        return 0

    first = wait_for(both, "copies in both directions")
    copied = {rank: noted(training, "status", first, rank)["copied"] for rank in (0, 1)}
    pids = nodes[1].kill()
    second = wait_for(lambda: [n for n in rounds(training) if n > first], "the next round")[-1]
    held = noted(training, "held", second, 0)
    copies = [one for one in held if one["copy"] and one["round"] == first]
    assert copies, held
    assert all(one["whole"] for one in held)
    assert len({one["name"] for one in held if one["name"].startswith("rank")}) == 2
    assert max(one["step"] for one in copies) >= min(copied.values())
    wait_for(lambda: not any(is_alive(pid) for pid in pids), "the end of the lost node")
    assert holders(pids) == []


def test_a_job_ends_when_its_last_checkpoint_is_written_and_gives_all_memory_back(
    training: Job, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    node = training.start(
        "--nnodes", "1", script=TRAINER, STEPS="5", CHECKPOINTS=str(folder), nproc=1
    )
    seen: set[int] = set()

    def over() -> bool:
        seen.update(process.pid for process in node.family())
        return node.process.poll() is not None

    wait_for(over, "the end of the job")
    assert node.process.returncode == 0, node.output
    assert newest_whole(CheckpointCatalog(open_storage(folder))).step == 5
    wait_for(lambda: not any(is_alive(pid) for pid in seen), "the end of all")
    assert holders(seen) == []


def test_after_a_kill_of_the_whole_job_no_memory_is_left(training: Job) -> None:
    node = training.start("--nnodes", "1", script=TRAINER)
    wait_for(lambda: rounds(training), "a round")
    wait_for(lambda: step(training, rounds(training)[-1]) >= 3, "some snapshots")
    assert holders([node.pid]) == [node.pid]
    pids = node.kill()
    wait_for(lambda: not any(is_alive(pid) for pid in pids), "the end of all")
    assert holders(pids) == []
