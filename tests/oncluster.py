"""The tests that need a whole cluster, one by one, as `make test-cluster` runs them.

The cluster and the images are made ready first, and a cluster that was not up before is taken down
afterwards; with RESILE_TEST_KUBECONFIG, that cluster is used as it is. Words after the command go
to pytest: `python -m tests.oncluster -k suspended`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from devcluster import Cluster
from devcluster.layout import Layout
from devcluster.progress import Progress
from tests.kube.cluster.target import NAMED_CLUSTER

TESTS = "tests/kube/cluster"


def main(words: Sequence[str] = ()) -> int:
    """The exit code: 0 if everything passed."""
    if NAMED_CLUSTER:
        return _run(words)
    progress = Progress(partial(print, flush=True))
    was_up = Layout.default().kubeconfig.exists()
    Cluster.up(nodes=2, progress=progress)
    try:
        subprocess.run([sys.executable, "-m", "devcluster.images"], check=True)
        return _run(words)
    finally:
        if not was_up:
            Cluster.down(progress=progress)


def _run(words: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", TESTS, "--durations=25", *words]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
