"""All tests, as `make test` runs them.

Three files at a time, since most tests wait for real processes; those of Kubernetes among them run
against real API servers, one for each of the three. Then, one by one, those that are marked
``alone``. A few that fail are run again, alone, and have to pass then. Last come those that need a
whole cluster (`tests.oncluster`). Where Kubernetes' binaries are not there, or a cluster cannot
run, these are left out and the last lines say so. In CI the binaries are built first and nothing is
left out. The slowest tests are printed at the end; `tests.durations` tells where they are kept.
"""

from __future__ import annotations

import os
from functools import partial

from devcluster.build import ensure_binaries
from devcluster.errors import Unsupported
from devcluster.layout import Layout
from devcluster.machine import check_machine
from devcluster.progress import Progress
from devcluster.release import missing_binaries
from tests import durations, oncluster
from tests.kube.cluster.target import NAMED_CLUSTER
from tests.running import run_tests

AT_ONCE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
FOLDERS = ("tests/local", "tests/kube", "tests/unit")
"""The slow ones first: what runs at the end is short, and nobody waits for the last file alone."""

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
    durations.forget()
    code = run_tests("local", at_once=AT_ONCE, where=("--ignore", oncluster.TESTS, *FOLDERS))
    built = not missing_binaries(layout.built.folder)
    obstacle = "" if NAMED_CLUSTER else _obstacle(built=built)
    code = code if obstacle else oncluster.main() or code
    print(f"The slowest tests:\n{durations.slowest()}", flush=True)
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
