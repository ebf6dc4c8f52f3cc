"""A warm worker is what `python script.py` would have been."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resile.agent.nursery import WorkerCommand

from .cradle import Outcome, cradle_for, module, script

PROBE = Path(__file__).parent / "probe.py"

Write = Callable[[str, str], Path]


async def both(
    folder: Path, command: WorkerCommand, **env: str
) -> tuple[Outcome, Outcome]:
    """Return how the command fares fresh and warm."""
    async with cradle_for(folder, command, env=env) as cradle:
        (running,) = await cradle.spawn()
        assert running.worker.warm, running.worker.reason
        return cradle.run_fresh(), await running.outcome()


def report(outcome: Outcome) -> dict[str, Any]:
    assert outcome.stderr == ""
    content = json.loads(outcome.stdout)
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ((), {}),
        (("-u",), {}),
        (("-O", "-B"), {"PYTHONUNBUFFERED": "1"}),
        (("-W", "error::UserWarning", "-X", "dev"), {}),
        (("-X", "utf8=0"), {"LANG": "C", "PYTHONIOENCODING": "latin-1"}),
        ((), {"PYTHONPATH": "lib:other", "PYTHONHASHSEED": "1"}),
        ((), {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}),
    ],
)
async def test_a_script_sees_the_same_process(
    tmp_path: Path, write: Write, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    write("train.py", PROBE.read_text())
    command = script("train.py", "--lr", "0.1", "ü", "", flags=flags)
    fresh, warm = await both(tmp_path, command, **variables)
    assert report(warm) == report(fresh)
    assert warm.returncode == fresh.returncode == 7
