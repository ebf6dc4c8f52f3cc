"""The example runs as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.local.commands import PATIENCE

FOLDER = Path(__file__).parents[3] / "examples" / "migration"


def test_the_example_moves_a_job_once(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.Popen(
        ["sh", str(FOLDER / "move.sh")],
        env={**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "RESILE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=3 * PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    assert output.count("saved ckpt!") == 1
    assert output.count("goes on: ") == 2
    assert "done: 300 steps" in output
