"""All tests, as `make test` runs them.

Four files at a time, since most tests wait for real processes; those of Kubernetes among them run
against real API servers, one for each of the four. Then the tests marked ``alone`` run one by one.
If only a few tests fail, they run again, alone, and have to pass then. The tests that need a whole
cluster (`tests.oncluster`) come last. If Kubernetes' binaries are missing, or a cluster cannot run,
these are skipped and the last lines say so. In CI the binaries are built first and nothing is
skipped. The slowest tests are printed at the end; `tests.durations` describes the files.
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

AT_ONCE = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
FOLDERS = ("tests/local", "tests/kube", "tests/unit")
"""The slow ones first, so that the files at the end are short and run in parallel."""

NOT_BUILT = (
    "its binaries are not there. `make cluster` builds them once (about nine minutes), then "
    "`make test` runs them"
)


def main() -> int:
    """Run all tests; return the exit code: 0 if everything passed."""
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
    """The reason why this machine cannot run a cluster; empty if it can."""
    if not built:
        return NOT_BUILT
    try:
        check_machine()
    except Unsupported as error:
        return str(error)
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
