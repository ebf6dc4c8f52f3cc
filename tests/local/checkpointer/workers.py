"""Workers without an agent that run a test's commands on their Checkpointer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Start", "Worker", "start"]

SCRIPT = Path(__file__).parent / "scripts" / "told.py"


class Worker:
    """One process of ``scripts/told.py``."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def told(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def kill(self) -> None:
        """Kill it; its writer still writes what it was given."""
        self._process.kill()
        self._process.wait(60)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as ended:

        def start(**environment: str) -> Worker:
            worker = Worker(tmp_path / "checkpoints", **environment)
            ended.callback(worker.close)
            return worker

        yield start
