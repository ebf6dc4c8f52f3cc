"""The tests that need a whole cluster, one by one, as `make test-cluster` runs them.

The cluster and the images are made ready first; a cluster that was not up before is taken down
afterwards.
"""

from __future__ import annotations

import subprocess
import sys

from devcluster import Cluster
from devcluster.layout import Layout
from devcluster.progress import Progress
from tests.everything import CLUSTER_TESTS


def main() -> int:
    """The exit code: 0 if everything passed."""
    progress = Progress(print)
    was_up = Layout.default().kubeconfig.exists()
    Cluster.up(nodes=2, progress=progress)
    try:
        subprocess.run([sys.executable, "-m", "devcluster.images"], check=True)
        words = ("-m", "pytest", CLUSTER_TESTS, *sys.argv[1:])
        return subprocess.run([sys.executable, *words], check=False).returncode
    finally:
        if not was_up:
            Cluster.down(progress=progress)


if __name__ == "__main__":
    raise SystemExit(main())
