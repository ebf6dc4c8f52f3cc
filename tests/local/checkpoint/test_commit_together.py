"""Writers in separate processes that share nothing but the storage."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.prune import prune
from resile.checkpoint.storage.local import LocalStorage
from resile.checkpoint.storage.retry import RetryPolicy
from tests.unit.checkpoint.parts import REPLICAS, WORLD, rank_part, replica_part

STEPS = range(10, 210, 10)
PATIENCE = RetryPolicy(60.0, first_pause=0.001, longest_pause=0.01)


def start(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def test_writers_commit_and_prune_many_steps_at_their_own_pace(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)

    def write_rank(rank: int) -> None:
        for step in STEPS:
            write_part(storage, rank_part(step, rank), attempt="a1", policy=PATIENCE)

    def write_replica_and_publish() -> None:
        for step in STEPS:
            write_part(storage, replica_part(step), attempt="a1", policy=PATIENCE)
            publish(
                storage,
                step=step,
                world=WORLD,
                replicas=REPLICAS,
                attempt="a1",
                policy=PATIENCE,
            )
            prune(CheckpointCatalog(storage), keep=2)

    children = [start(lambda rank=rank: write_rank(rank)) for rank in range(WORLD)]
    children.append(start(write_replica_and_publish))
    for child in children:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    catalog = CheckpointCatalog(storage)
    assert [one.step for one in catalog.checkpoints()] == [200, 190]
    assert all(catalog.damages(one) == [] for one in catalog.checkpoints())
    assert not list(tmp_path.rglob("*.tmp"))
