"""The examples in the page on migration run as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.local.commands import PATIENCE, wait_for
from tests.local.data.documentation import run_script, written

BEFORE = """
import os
import time
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = int(os.environ["STEPS"])
"""
WORK = """
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    print(step, flush=True)
"""
SECOND = """
assert metrics == {"epoch": -1}
assert best.value == 0.0
"""


def steps_in(said: str) -> list[int]:
    """The steps in the output, without the migrator's lines."""
    return [int(line) for line in said.splitlines() if line.isdigit()]


def test_a_script_is_moved_and_its_file_can_be_looked_at(tmp_path: Path) -> None:
    block = written("migration.md", 'migrator.register("metrics", metrics)')
    assert block.count("    ...\n") == 1
    text = BEFORE + block.replace("    ...\n", WORK)
    (tmp_path / "moved.py").write_text(text)
    environment = {**os.environ, "TORCHELASTIC_RUN_ID": "docs", "STEPS": "1000000"}
    process = subprocess.Popen(
        [sys.executable, "moved.py"],
        cwd=tmp_path,
        env=environment,
        stdout=(tmp_path / "steps").open("w"),
    )
    try:
        wait_for(lambda: len(steps_in((tmp_path / "steps").read_text())) > 5, "steps")
        subprocess.run(
            [sys.executable, "-m", "resile", "prestop", "--timeout", "50"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    done = steps_in((tmp_path / "steps").read_text())[-1] + 1

    look = "import torch\nfound = " + written("migration.md", 'torch.load("migration.pth"')
    looking = tmp_path / "ckpts"
    saved = torch.load(looking / "migration.pth", weights_only=True)["metrics"]
    assert saved["step"] == done
    assert run_script(look + "print(found)", looking) == f"{saved}\n"

    said = run_script(text, tmp_path, TORCHELASTIC_RUN_ID="docs", STEPS=str(done + 3))
    assert steps_in(said) == [done, done + 1, done + 2]


def test_variables_that_restore_themselves(tmp_path: Path) -> None:
    run_script(written("migration.md", "MigratableVariable(0.0") + SECOND, tmp_path)
