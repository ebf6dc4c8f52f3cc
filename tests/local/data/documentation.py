"""What the documentation says to write, taken from its pages to be run."""

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
    """The block of a page that has these words."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)
    (block,) = [block for block in blocks if words in block]
    return str(block)


def run(block: str, script: dict[str, Any]) -> None:
    """Here, with what a script has before such a block."""
    exec(compile(block, "documentation", "exec"), script)


def run_script(text: str, folder: Path, **environment: str) -> str:
    """As a script of its own, in ``folder``; returns what it printed."""
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
