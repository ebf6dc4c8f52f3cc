"""`resile run --preload check` as a user calls it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.local.nursery.harness import environment

Write = Callable[[str, str], Path]


def check(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "resile", "run", "--preload", "check", "train.py", "--lr", "1"],
        cwd=folder / "work",
        env={**environment(folder), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_script_that_is_the_same_warm_and_cold_is_said_to_be(
    tmp_path: Path, write: Write
) -> None:
    write("site-packages/inert.py", "VALUE = 3")
    write("train.py", "import sys, inert; print('trained', inert.VALUE, sys.argv)")
    done = check(tmp_path, PYTHONPATH=str(tmp_path / "work" / "site-packages"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Warm workers of this script do not differ from cold ones.\n"


def test_every_difference_is_listed_with_both_sides(tmp_path: Path, write: Write) -> None:
    """Resile's own import finders exist only in warm workers."""
    write(
        "train.py",
        """
        import os, sys
        warm = any(type(finder).__name__ == "DeferredModules" for finder in sys.meta_path)
        os.environ["KIND"] = "warm" if warm else "cold"
        """,
    )
    done = check(tmp_path)
    assert done.returncode == 1, done.stderr
    difference, count = done.stdout.splitlines()
    assert "environment: KIND" in difference
    assert difference.index("cold") < difference.index("warm")
    assert count == "1 difference. `--preload none` avoids all of them."
