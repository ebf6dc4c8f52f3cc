"""One description of how a process ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from resile.system.processes import describe_exit


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-9, "was killed by SIGKILL (code 137)"),
        (-33, "was killed by signal 33 (code 161)"),
    ],
)
def test_codes_are_told_as_people_look_for_them(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_it_takes_what_subprocess_gives() -> None:
    script = "import os; os.abort()"
    ended = subprocess.run([sys.executable, "-c", script], check=False, stderr=subprocess.DEVNULL)
    assert describe_exit(ended.returncode) == "was killed by SIGABRT (code 134)"
