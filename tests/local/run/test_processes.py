"""A job's processes as seen from outside: the recipes of the docs find the documented ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS, Job

pgrep = shutil.which("pgrep")


@pytest.mark.skipif(pgrep is None, reason="pgrep is not installed")
def test_the_recipes_for_pids_find_workers_and_the_master_and_nobody_else(
    job: Job, tmp_path: Path
) -> None:
    script = tmp_path / "to_be_found.py"
    for name in ("steps.py", "recording.py"):
        target = script if name == "steps.py" else tmp_path / name
        target.write_text((SCRIPTS / name).read_text())
    job.start(script=str(script), nproc=2)
    trains = job.trains(world=2)
    workers = {job.pid_of(rank, round=trains) for rank in (0, 1)}
    assert found(f"python.* -u .*{script}") == workers
    wait_for(lambda: found(f"resile master --endpoint {job.endpoint}"), "the master")
    assert found(f"resile master --endpoint {job.endpoint}") == set(job.master_pids())


def found(pattern: str) -> set[int]:
    assert pgrep is not None
    done = subprocess.run([pgrep, "-f", pattern], capture_output=True, text=True, check=False)
    return {int(line) for line in done.stdout.split()}
