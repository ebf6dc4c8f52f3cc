"""Run the code blocks of the documentation's pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["run", "run_script", "written"]

DOCS = Path(__file__).parents[3] / "docs"


def written(page: str, words: str) -> str:
    """The block of a page that contains these words."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)
    (block,) = [block for block in blocks if words in block]
    return str(block)


def run(block: str, script: dict[str, Any]) -> None:
    """Run a block here, with the variables that a script has before it."""
    exec(compile(block, "documentation", "exec"), script)


def run_script(text: str, folder: Path, **environment: str) -> str:
    """Run a block as a script in ``folder``; return its output."""
    path = folder / "script.py"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
