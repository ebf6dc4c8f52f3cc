"""Real ranks for tests: one process each, that meet over a file, and are ended with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[3]
PATIENCE = 240
"""Seconds; several processes import torch at once on a machine that may be busy."""


def run_ranks(script: str, *args: str, world: int, meeting: Path, **environment: str) -> None:
    """Run a script on ``world`` ranks to its end; fails with their output if one of them does."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPTS / script), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "OMP_NUM_THREADS": "1",
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "MEETING": str(meeting),
                **environment,
            },
        )
        for rank in range(world)
    ]
    try:
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    failed = [rank for rank, process in enumerate(processes) if process.returncode]
    assert not failed, "\n".join(f"--- rank {rank}\n{outputs[rank][-3000:]}" for rank in failed)
