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
from tests.kube.cluster.target import NAMED_CLUSTER

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
    words = ("-n", "3", "--dist", "loadfile", "--ignore", oncluster.TESTS)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode
    built = all((layout.binaries / name).is_file() for name in BINARIES)
    obstacle = "" if NAMED_CLUSTER else _obstacle(built=built)
    code = code if obstacle else oncluster.main() or code
    if not built:
        print(f"The tests that need Kubernetes were LEFT OUT: {NOT_BUILT}.")
    elif obstacle:
        print(f"The tests that need a Kubernetes cluster were LEFT OUT: {obstacle}.")
    return code


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
