"""A checkpoint that is written again while it is restored: all ranks restore the same bytes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import NoCheckpoint
from resile.checkpoint.names import MANIFEST
from resile.checkpoint.storage.base import Storage, StoredFile
from resile.checkpoint.storage.local import LocalStorage
from resile.train.checkpoint.restore.restore_coordinator import RestoreResult, resume
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.checkpoint.save.capture import Capture

WORLD = 2


def write(storage: Storage, *, step: int, value: float, attempt: str) -> None:
    """A checkpoint by two ranks, all of whose elements are ``value``."""
    for rank in range(WORLD):
        capture = Capture(rank=rank, world=WORLD)
        captured = capture.take({"w": torch.full((5,), value)}, step=step)
        for portion in [captured.rank, *([captured.replica] if rank == 0 else [])]:
            buffer = memoryview(bytearray(portion.size))
            portion.write(buffer)
            write_part(storage, buffer, attempt=attempt)
    publish(storage, step=step, world=WORLD, replicas=1, attempt=attempt)


class ChangesOnce(LocalStorage):
    """Before the first look at a manifest, the checkpoint is written again."""

    changed = False

    def open(self, path: str) -> StoredFile:
        if path.endswith(MANIFEST) and not self.changed:
            self.changed = True
            write(LocalStorage(self.root), step=10, value=2.0, attempt="a2")
        return super().open(path)


def restore_together(storages: list[Storage]) -> tuple[list[Any], list[RestoreResult]]:
    """Restore on all ranks; return each rank's tensors, and where they came from."""
    store = dist.HashStore()
    states = [{"w": torch.zeros(5)} for _ in storages]
    resumed: list[Any] = [None] * WORLD

    def restore(rank: int) -> None:
        place = RankInfo(
            rank=rank, world=WORLD, local_rank=0, local_world=1, group_rank=rank, nodes=2, round=1
        )
        resumed[rank] = resume(
            states[rank],
            channel=RoundChannel(place, store),
            memory=None,
            storage=storages[rank],
            strict=True,
            trust=False,
        )

    ranks = [threading.Thread(target=restore, args=(rank,), daemon=True) for rank in range(WORLD)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
        assert not rank.is_alive()
    return [state["w"].tolist() for state in states], resumed


def test_all_ranks_restore_the_same_bytes_although_a_step_is_written_again(tmp_path: Path) -> None:
    write(LocalStorage(tmp_path), step=5, value=0.5, attempt="a0")
    write(LocalStorage(tmp_path), step=10, value=1.0, attempt="a1")
    found, resumed = restore_together([LocalStorage(tmp_path), ChangesOnce(tmp_path)])
    assert found == [[2.0] * 5] * WORLD
    assert [one.step for one in resumed] == [10, 10]
    assert "rewritten during the restore" in resumed[0].problems[0]


def test_damaged_checkpoints_are_said_and_the_one_before_is_used(tmp_path: Path) -> None:
    for step, value in ((5, 0.5), (10, 1.0), (15, 1.5)):
        write(LocalStorage(tmp_path), step=step, value=value, attempt="a1")
    (tmp_path / "step-000000015" / MANIFEST).write_bytes(b"\xff")
    (tmp_path / "step-000000010" / "rank-00001-of-00002.a1.safetensors").write_bytes(b"")
    found, resumed = restore_together([LocalStorage(tmp_path)] * WORLD)
    assert found == [[0.5] * 5] * WORLD
    assert "is not a manifest" in resumed[0].problems[0]
    assert "rank-00001-of-00002.a1 has 0 bytes" in resumed[0].problems[1]
    assert resumed[0].problems == resumed[1].problems


def test_a_folder_with_damaged_checkpoints_only_is_no_empty_folder(tmp_path: Path) -> None:
    write(LocalStorage(tmp_path), step=15, value=1.5, attempt="a1")
    (tmp_path / "step-000000015" / MANIFEST).write_bytes(b"\xff")
    alone = RankInfo(rank=0, world=1, local_rank=0, local_world=1, group_rank=0, nodes=1, round=1)
    with pytest.raises(NoCheckpoint, match=r"none can be used.*is not a manifest"):
        resume(
            {"w": torch.zeros(5)},
            channel=RoundChannel(alone, None),
            memory=None,
            storage=LocalStorage(tmp_path),
            strict=True,
            trust=False,
        )
