"""`resile data check` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resile.job.view import JobView
from resile.ledger import Ledger
from resile.local.jobdir import JobDir
from tests.local.ledgers import data_check


def resile(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    return data_check(*words, env={"PATH": "", "RESILE_HOME": str(home)})


def write(folder: Path, *batches: list[int]) -> None:
    ledger = Ledger(folder, length=6, rank=0, world=1, round="1")
    for step, batch in enumerate(batches, start=1):
        ledger.record(step, 0, batch, total=len(batch))
    ledger.close()


def test_a_sound_ledger_is_code_0(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [0, 1, 2], [3, 4, 5])
    result = resile(str(tmp_path / "ledger"), "--epochs", "1", home=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "epoch 0: complete, each of 6 trained exactly once" in result.stdout


def test_faults_are_told_and_are_code_1(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [0, 1, 2], [2, 4, 5])
    result = resile(str(tmp_path / "ledger"), home=tmp_path)
    assert result.returncode == 1
    assert "epoch 0: NOT exactly once: 5 of 6 trained" in result.stdout
    assert "index 2: step 1 by rank 0 in round 1; step 2 by rank 0 in round 1" in result.stdout
    assert "never trained: 3" in result.stdout


def test_json_says_the_same(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [0, 1, 2], [2, 4, 5])
    result = resile(str(tmp_path / "ledger"), "-o", "json", home=tmp_path)
    assert result.returncode == 1
    told = json.loads(result.stdout)
    (epoch,) = told["streams"][0]["epochs"]
    assert not told["sound"]
    assert epoch["repeats"][0]["index"] == 2
    assert epoch["gaps"] == [[3, 4]]


def test_a_jobs_ledger_is_found_in_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path))
    write(tmp_path / "ledger", [0, 1, 2])
    for name, env in (("noted", {"RESILE_LEDGER": str(tmp_path / "ledger")}), ("other", {})):
        manifest = {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {"roles": {"worker": {"script": "train.py", "env": env}}},
        }
        folder = JobDir(name)
        with folder.hold():
            folder.write_view(JobView(name=name, phase="Succeeded", manifest=manifest))
    assert "3 of 6 trained so far" in resile("noted", home=tmp_path).stdout
    assert "the job 'other' has no ledger" in resile("other", home=tmp_path).stderr


def test_no_job_and_no_folder_is_one_line(tmp_path: Path) -> None:
    missing = resile("nothing", home=tmp_path)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "there is no job 'nothing'" in missing.stderr
    assert "there is no folder a/b" in resile("a/b", home=tmp_path).stderr
    assert "there is no ledger in" in resile(str(tmp_path), home=tmp_path).stderr


def test_it_does_not_import_torch(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [0])
    code = (
        "import sys; from resile.cli.main import cli\n"
        f"try: cli(['data', 'check', {str(tmp_path / 'ledger')!r}])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "False"
