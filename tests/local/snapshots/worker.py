"""A worker that takes snapshots until it is killed: ``worker.py KEEPER RANK WORLD ROUND BYTES``.

It copies in small pieces, so that a kill hits it in the middle of a copy, and prints each step
when it is complete.
"""

from __future__ import annotations

import sys

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import WorkerHello
from tests.local.snapshots.parts import RANK, label_of, part_bytes

PIECE = 64 * 1024


def main() -> None:
    name, rank, world, round_, data = sys.argv[1], *map(int, sys.argv[2:6])
    worker = WorkerHello(rank=rank, local_rank=0, world=world, nproc=1, round=round_)
    memory = AgentSnapshotClient(name, worker)
    step = max((held.label.step for held in memory.inventory()), default=0)
    while True:
        step += 1
        content = part_bytes(label_of(worker, RANK, step), data)
        buffer = memory.begin(RANK, step=step, size=len(content)).buffer
        for begin in range(0, len(content), PIECE):
            buffer[begin : begin + PIECE] = content[begin : begin + PIECE]
        memory.complete(RANK)
        print(step, flush=True)


if __name__ == "__main__":
    main()
