"""Exits of a worker which show that the script itself cannot run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resile.agent.worker_errors import startup_error


def end_of(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("print('fine'\n", "SyntaxError: "),
        ("def f():\nreturn\n", "IndentationError: "),
        ("import not_there_at_all\n", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("from os import no_such_name\n", "ImportError: cannot import name 'no_such_name'"),
    ],
)
def test_a_script_that_python_cannot_run_is_recognised(
    tmp_path: Path, text: str, error: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    assert startup_error(*end_of(str(script))).startswith(error)


def test_a_module_that_is_not_there_is_recognised() -> None:
    found = startup_error(*end_of("-m", "not_there_at_all"))
    assert found == "No module named not_there_at_all"


@pytest.mark.parametrize(
    "text",
    [
        "raise RuntimeError('ImportError: not really')",
        "import sys; print('ImportError: handled', file=sys.stderr); sys.exit(3)",
        "import os, sys; print('ImportError: x', file=sys.stderr, flush=True); os.abort()",
        "import sys; print('ImportError: x\\nand more', file=sys.stderr); sys.exit(1)",
        "raise SystemExit(1)",
    ],
)
def test_any_other_end_is_not(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    assert startup_error(*end_of(str(script))) == ""


def test_what_is_told_fits_into_a_line() -> None:
    found = startup_error(1, "ImportError: a\x1b[31m" + "x" * 2000)
    assert len(found) <= 500
    assert found.isprintable()
