"""A training script reduced to its snapshots, for `resile run`.

Each worker announces its keeper to the others of its round (through files in $EXCHANGE), records
what its node holds and whether it is intact, and then takes a snapshot every few milliseconds up to
step $STEPS; the last one is written to $CHECKPOINTS if that is set.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import CheckpointPublication, WorkerHello
from tests.local.snapshots.parts import RANK, REPLICA, copy_to, is_whole, open_part, save

ROUND, RANK_NUMBER = int(os.environ["RESILE_ROUND"]), int(os.environ["RANK"])
WORLD, NPROC = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
STEPS = int(os.environ.get("STEPS", "1000000"))
EXCHANGE = Path(os.environ["EXCHANGE"])


def note(name: str, content: object) -> None:
    path = EXCHANGE / f"{name}-{ROUND}-{RANK_NUMBER}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    draft.rename(path)


def noted(name: str, rank: int) -> str:
    path = EXCHANGE / f"{name}-{ROUND}-{rank}.json"
    while not path.exists():
        time.sleep(0.01)
    return str(json.loads(path.read_text()))


def inventory(memory: AgentSnapshotClient) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for held in memory.inventory():
        with open_part(memory, held.label) as part:
            whole = is_whole(held.label, part.buffer)
        found.append(
            {
                "name": held.label.place.name,
                "step": held.label.step,
                "round": held.label.round,
                "copy": held.is_copy,
                "whole": whole,
            }
        )
    return found


def main() -> None:
    worker = WorkerHello(
        rank=RANK_NUMBER,
        local_rank=int(os.environ["LOCAL_RANK"]),
        world=WORLD,
        nproc=NPROC,
        round=ROUND,
    )
    memory = AgentSnapshotClient.from_environment(worker)
    assert memory is not None
    held = inventory(memory)
    note("held", held)
    note("address", memory.address)
    copy_to(memory, noted("address", (RANK_NUMBER + NPROC) % WORLD) if WORLD > NPROC else "")
    step = max((int(str(one["step"])) for one in held), default=0)
    while step < STEPS:
        step += 1
        for kind in (REPLICA, RANK):
            save(memory, worker, step=step, kind=kind)
        note("status", {"step": step, "copied": memory.status().copied, "pid": os.getpid()})
        time.sleep(0.02)
    if folder := os.environ.get("CHECKPOINTS"):
        memory.persist(
            folder,
            step=step,
            kinds=(REPLICA, RANK),
            attempt="last",
            publication=CheckpointPublication(world=WORLD, replicas=NPROC),
        )


if __name__ == "__main__":
    main()
