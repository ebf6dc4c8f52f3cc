"""Starting a master as a process of its own: its command line, and how it says that it listens.

Two do so: an agent on the endpoint's machine (``agent/keeper.py``), and the local platform for a
whole job. A job's master must have one keeper only: two would start it over different stores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.wire.endpoint import Endpoint

__all__ = ["KEPT_VARIABLE", "conf_text", "last_line", "master_command", "read_announcement"]

KEPT_VARIABLE = "RESILE_MASTER_KEPT"
"""Set for nodes whose master is started again by somebody else when it dies: not theirs to do."""


def master_command(
    endpoint: Endpoint, *, run_id: str, elasticity: Elasticity, announce: int
) -> list[str]:
    """The argv of a master that writes where it listens to the descriptor ``announce``."""
    return [
        *(sys.executable, "-m", "resile", "master"),
        *("--endpoint", str(endpoint)),
        *("--job", run_id),
        *("--nnodes", f"{elasticity.min_nodes}:{elasticity.max_nodes}"),
        *("--max-restarts", str(elasticity.max_restarts)),
        *("--rdzv-conf", conf_text(elasticity)),
        *("--announce-fd", str(announce)),
    ]


def conf_text(elasticity: Elasticity) -> str:
    """All that ``--nnodes`` and ``--max-restarts`` do not say, as ``--rdzv-conf`` takes it."""
    said = {"min_nodes", "max_nodes", "max_restarts"}
    names = [name for name in Elasticity.__struct_fields__ if name not in said]
    return ",".join(f"{name}={getattr(elasticity, name)}" for name in names)


def read_announcement(descriptor: int) -> Endpoint | None:
    """Wait for a new master's word; None if it ended without one. Closes the descriptor."""
    with open(descriptor) as pipe:
        host, _, port = pipe.read().strip().rpartition(" ")
    return Endpoint(host, int(port)) if port else None


def last_line(log: Path) -> str:
    """Why a master that did not come to listen ended, in its own words."""
    lines = log.read_text(errors="replace").splitlines()
    said = lines[-1] if lines else "it said nothing"
    return f"the master could not start: {said.removeprefix('Error: ')}"
