"""All tests that one machine can run side by side, as `make test` runs them.

Three files at a time, since most tests wait for real processes. Those of Kubernetes run against
real API servers, one for each file; where the binaries are not there they are left out, and the
last lines say so. In CI the binaries are built first. Tests that need a whole cluster, of which
there is one on a machine, are `tests.oncluster`'s.
"""

from __future__ import annotations

import os
import subprocess
import sys

from devcluster.build import BINARIES, ensure_binaries
from devcluster.layout import Layout
from devcluster.progress import Progress

CLUSTER_TESTS = "tests/kube/cluster"


def main() -> int:
    """The exit code: 0 if everything passed."""
    layout = Layout.default()
    if os.environ.get("CI") == "true":
        ensure_binaries(layout, progress=Progress(print))
    words = ("-n", "3", "--dist", "loadfile", "--ignore", CLUSTER_TESTS)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode
    if not all((layout.binaries / name).is_file() for name in BINARIES):
        print(
            "The tests that need Kubernetes were LEFT OUT: its binaries are not there. "
            "`make cluster` builds them once (about nine minutes), then `make test` runs them."
        )
    return code


if __name__ == "__main__":
    raise SystemExit(main())
