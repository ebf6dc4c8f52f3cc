"""A process that moves into a cgroup of version 2 and prints which folders it could open there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from resile.local.limits.cgroups import create_job_cgroups, remove, sweep

if __name__ == "__main__":
    own, controller, job = sys.argv[1:]
    (Path(own) / "cgroup.procs").write_text("0")
    sweep(job, [controller])
    homes = create_job_cgroups(job, [controller])
    found = []
    for home in homes.values():
        node = home.node_folder("node")
        controllers = (node / "cgroup.controllers").read_text().split()
        found.append([home.version.value, str(home.folder.parent), controllers])
        remove(node)
        remove(home.folder)
    print(json.dumps(found))
