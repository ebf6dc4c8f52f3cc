"""All tests, as `make test` runs them.

Three files at a time, since most tests wait for real processes; those of Kubernetes among them run
against real API servers, one for each file. A few that fail are run again, alone, and have to pass
then. Last come those that need a whole cluster, one by one (`tests.oncluster`). Where Kubernetes'
binaries are not there, or a cluster cannot run, these are left out and the last lines say so. In CI
the binaries are built first and nothing is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from devcluster.build import BINARIES, ensure_binaries
from devcluster.errors import Unsupported
from devcluster.layout import Layout
from devcluster.machine import check_machine
from devcluster.progress import Progress
from tests import oncluster
from tests.kube.cluster.target import NAMED_CLUSTER

AT_ONCE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
FOLDERS = ("tests/local", "tests/kube", "tests/unit")
"""The slow ones first: what runs at the end is short, and nobody waits for the last file alone."""

FEW = 10
"""More failures than this are not a slow machine's doing."""

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")

NOT_BUILT = (
    "its binaries are not there. `make cluster` builds them once (about nine minutes), then "
    "`make test` runs them"
)


def main() -> int:
    """The exit code: 0 if everything passed."""
    layout = Layout.default()
    if os.environ.get("CI") == "true":
        check_machine()
        ensure_binaries(layout, progress=Progress(partial(print, flush=True)))
    words = (*AT_ONCE, "--durations=40", "--ignore", oncluster.TESTS, *FOLDERS)
    code = run_twice(words)
    built = all((layout.binaries / name).is_file() for name in BINARIES)
    obstacle = "" if NAMED_CLUSTER else _obstacle(built=built)
    code = code if obstacle else oncluster.main() or code
    if not built:
        print(f"The tests that need Kubernetes were LEFT OUT: {NOT_BUILT}.")
    elif obstacle:
        print(f"The tests that need a Kubernetes cluster were LEFT OUT: {obstacle}.")
    return code


def run_twice(words: Sequence[str]) -> int:
    """Run the tests, and once more, alone, the few that failed; the exit code of the last run.

    Many tests kill and pause real processes and wait for what becomes of them. Beside two others a
    slow machine can keep one of them waiting for longer than it is prepared to. What is broken
    fails alone as well.
    """
    code = _pytest("--cache-clear", *words)
    again = _last_failed() if code == pytest.ExitCode.TESTS_FAILED else 0
    if not 0 < again <= FEW:
        return code
    print(f"{again} failed beside other tests; running them again, alone:", flush=True)
    return _pytest("--last-failed", *words[words.index("--ignore") :])


def _pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def _last_failed() -> int:
    """How many tests pytest remembers as failed."""
    try:
        return len(json.loads(LAST_FAILED.read_bytes()))
    except (OSError, ValueError):
        return 0


def _obstacle(*, built: bool) -> str:
    """Why there can be no cluster on this machine; empty if there can be one."""
    if not built:
        return NOT_BUILT
    try:
        check_machine()
    except Unsupported as error:
        return str(error)
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
