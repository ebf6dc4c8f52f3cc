"""A snapshot for which there is not enough memory is refused before it is tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from resile.local.limits.cgroups import create_job_cgroups, remove
from resile.system.cgroups import Version
from tests.local.platform.conftest import needs_cgroup

LIMIT = 256 << 20

REFUSED = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots.client import LocalSnapshotClient
from resile.snapshots.messages import WorkerHello
from resile.checkpoint.part import PartKind
memory = LocalSnapshotClient(WorkerHello(rank=0, local_rank=0, world=1, nproc=1))
memory.reserve(PartKind.RANK, 20 << 20)
try:
    memory.reserve(PartKind.RANK, 300 << 20)
except NoMemoryForSnapshot as error:
    print(error)
"""


@needs_cgroup("memory")
def test_a_snapshot_beyond_the_memory_cgroups_limit_is_refused_with_numbers() -> None:
    home = create_job_cgroups("snapshots", ["memory"])["memory"]
    folder = home.node_folder("small")
    try:
        limit = "memory.max" if home.version is Version.V2 else "memory.limit_in_bytes"
        (folder / limit).write_text(str(LIMIT))
        done = subprocess.run(
            [sys.executable, "-c", REFUSED, str(folder / "cgroup.procs")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "a snapshot of 300.0 MiB needs" in done.stdout
        assert "for two buffers" in done.stdout
        assert str(Path(folder).name) in done.stdout
    finally:
        remove(folder)
        remove(home.folder)
