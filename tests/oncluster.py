"""The tests that need a whole cluster, as `make test-cluster` runs them.

Two at a time, each in a separate namespace; then, one by one, those that stop machines or the API
server, or need the cluster's whole capacity (`alone`).
The cluster and the images are prepared first, and a cluster that was not up before is removed
afterwards; with RESILE_TEST_KUBECONFIG, that cluster is used as it is. Further arguments are passed
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
from tests.running import run_tests

TESTS = "tests/kube/cluster"
AT_ONCE = ("-n", "2")


def main(words: Sequence[str] = ()) -> int:
    """Run the tests; return the exit code: 0 if everything passed."""
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
    return run_tests("cluster", at_once=AT_ONCE, where=(TESTS, *words))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
