"""A keeper in a separate process, as in an agent: ``keeper.py HOST TOKEN``.

Prints the name of its socket and its address for peers, and ends when its input is closed.
"""

from __future__ import annotations

import sys

from resile.agent.snapshot_service import SnapshotService
from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import WorkerHello


def main() -> None:
    snapshots = SnapshotService(sys.argv[1], token=sys.argv[2])
    asking = AgentSnapshotClient(
        snapshots.name, WorkerHello(rank=0, local_rank=0, world=1, nproc=1)
    )
    print(snapshots.name, asking.address, flush=True)
    asking.close()
    sys.stdin.read()
    snapshots.close()


if __name__ == "__main__":
    main()
