"""Real ranks for tests: one process each, with a rendezvous over a file, ended with the test."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.local.warm import warm

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE = 240.0
"""Seconds; a machine that is busy with other tests is slow."""


def run_ranks(script: str, *args: str, world: int, meeting: Path, **environment: str) -> None:
    """Run a script on ``world`` ranks to its end; fails with their output if one of them does."""
    folder = meeting.parent
    outputs = [folder.with_name(f"{folder.name}-rank{rank}.log") for rank in range(world)]
    processes = [
        warm.Process(
            target=_run,
            args=(
                [str(SCRIPTS / script), *args],
                {
                    "OMP_NUM_THREADS": "1",
                    "RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "MEETING": str(meeting),
                    **environment,
                },
                str(output),
            ),
        )
        for rank, output in enumerate(outputs)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + PATIENCE
        for process in processes:
            process.join(max(deadline - time.monotonic(), 0))
        failed = [rank for rank, process in enumerate(processes) if process.exitcode != 0]
    finally:
        for process in processes:
            _end(process)
    said = [f"--- rank {rank}\n{outputs[rank].read_text()[-3000:]}" for rank in failed]
    assert not failed, "\n".join(said)


def _run(argv: list[str], environment: dict[str, str], output: str) -> None:
    """Run the script as the main program of a rank, with its output in a file."""
    os.environ.update(environment)
    sys.argv = argv
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        raise


def _end(process: BaseProcess) -> None:
    if process.is_alive():
        process.kill()
    process.join()
