"""All tests, as `make test` runs them.

Three files at a time, since most tests wait for real processes; those of Kubernetes among them run
against real API servers, one for each file. Then those that need a whole cluster, one by one
(`tests.oncluster`). Where Kubernetes' binaries are not there, or a cluster cannot run, these are
left out and the last lines say so. In CI the binaries are built first and nothing is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from devcluster.build import BINARIES, ensure_binaries
from devcluster.errors import Unsupported
from devcluster.layout import Layout
from devcluster.machine import check_machine
from devcluster.progress import Progress
from tests import oncluster


def main() -> int:
    """The exit code: 0 if everything passed."""
    layout = Layout.default()
    if os.environ.get("CI") == "true":
        ensure_binaries(layout, progress=Progress(partial(print, flush=True)))
    words = ("-n", "3", "--dist", "loadfile", "--ignore", oncluster.TESTS)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode
    if not all((layout.binaries / name).is_file() for name in BINARIES):
        print(
            "The tests that need Kubernetes were LEFT OUT: its binaries are not there. "
            "`make cluster` builds them once (about nine minutes), then `make test` runs them."
        )
        return code
    try:
        check_machine()
    except Unsupported as error:
        if os.environ.get("CI") == "true":
            raise
        print(f"The tests that need a Kubernetes cluster were LEFT OUT: {error}.")
        return code
    return oncluster.main() or code


if __name__ == "__main__":
    raise SystemExit(main())
