"""A job's ledger is written by default, and found by the job's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resile.ledger import Ledger
from resile.local.jobdir import JobDir
from tests.local.jobs import SCRIPTS, Job
from tests.local.ledgers import data_check
from tests.local.training import TRAINER
from tests.local.up.ups import Machine, manifest

HERE = Path(__file__).parent


def training(machine: Machine, *, steps: int) -> dict[str, Any]:
    """A job that resumes from its checkpoints; an epoch has 8 steps."""
    env = {
        "STEPS": str(steps),
        "EVERY": "8",
        "RESULT": str(machine.folder / "result"),
        "CHECKPOINTS": str(machine.folder / "checkpoints"),
    }
    role = {"script": str(SCRIPTS / TRAINER), "procsPerNode": 2, "env": env}
    return manifest("proven", {"worker": role})


def test_a_job_of_up_is_proven_by_its_name_until_it_is_deleted(machine: Machine) -> None:
    first = machine.up(training(machine, steps=16))
    assert first.wait() == 0, first.output
    assert "epoch 1: complete" in machine.says("data", "check", "proven", "--epochs", "2")
    second = machine.up(training(machine, steps=24))
    assert second.wait() == 0, second.output
    said = machine.says("data", "check", "proven", "--epochs", "3")
    assert "data: 24 steps count, 0 were lost and trained again, 2 rounds" in said
    machine.says("delete", "proven")
    assert not (machine.home / "jobs" / "proven").exists()


def test_a_job_of_run_is_proven_by_its_name_if_it_was_asked_for(job: Job) -> None:
    """A worker is killed, too: its lost steps are trained again, and count once."""
    node = job.start(
        *("--standalone", "--rdzv-id", "../killed", "--ledger"),
        script=str(HERE / "crashing.py"),
        nproc=2,
        endpoint=False,
        DIES_AT="11",
        STATE_FILE=str(job.folder / "state.json"),
    )
    assert node.wait() == 0, node.output
    (folder,) = (job.folder / "home" / "ledgers").iterdir()
    assert folder.name == "%2E.%2Fkilled"
    proof = data_check(str(folder), "--epochs", "2", env=job.env())
    assert proof.returncode == 0, proof.stdout + proof.stderr
    folder.rename(folder.with_name("killed"))
    assert data_check("killed", env=job.env()).stdout == proof.stdout
    assert "epoch 1: complete, each of 103 trained exactly once" in proof.stdout


def test_a_ledger_of_run_needs_a_name_to_be_found_by(job: Job) -> None:
    node = job.start("--standalone", "--ledger", script=str(HERE / "crashing.py"), endpoint=False)
    assert node.wait() == 2
    assert "--ledger: say by --rdzv-id NAME" in node.output


def test_what_is_not_a_ledgers_stays_when_a_job_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path))
    folder = JobDir("noted")
    with folder.hold():
        folder.begin()
        Ledger(folder.ledger, length=1).record(1, 0, [0])
        folder.begin()
        assert len(list(folder.ledger.iterdir())) == 1
        (folder.ledger / "notes.txt").touch()
        folder.remove()
    assert [path.name for path in folder.ledger.iterdir()] == ["notes.txt"]
