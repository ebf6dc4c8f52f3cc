"""A worker without an agent: makes its writer write, and prints the writer's pid.

``alone.py FOLDER``. The writer is stopped before the order, so that the worker can be killed while
everything is still to be written.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import psutil

from resile.snapshots.client import LocalSnapshotClient
from resile.snapshots.messages import CheckpointPublication, WorkerHello
from tests.local.snapshots.parts import RANK, REPLICA, save


def main() -> None:
    memory = LocalSnapshotClient(WorkerHello(rank=0, local_rank=0, world=1, nproc=1))
    for kind in (REPLICA, RANK):
        save(memory, memory.worker, step=10, kind=kind)
    memory.persist(sys.argv[1], step=10, kinds=(), attempt="nothing")
    (carrier,) = psutil.Process().children()
    os.kill(carrier.pid, signal.SIGSTOP)
    memory.persist(
        sys.argv[1],
        step=10,
        kinds=(REPLICA, RANK),
        attempt="first",
        publication=CheckpointPublication(world=1, replicas=1),
    )
    print(carrier.pid, flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    main()
