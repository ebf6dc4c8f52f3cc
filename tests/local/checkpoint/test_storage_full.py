"""A disk that is really full."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import write_part
from resile.checkpoint.errors import StorageRefused
from resile.checkpoint.part import PartHeader, PartKind, Slice
from resile.checkpoint.storage.local import LocalStorage
from tests.checkpoints import newest_whole
from tests.local.checkpoint.disks import SIZE
from tests.unit.checkpoint.parts import HASTY, make_part, noise, save


def large_part(step: int, size: int) -> memoryview:
    header = PartHeader(
        step=step,
        kind=PartKind.RANK,
        index=0,
        count=1,
        world=1,
        slices={"a": Slice(dtype="U8", shape=(size,))},
    )
    return make_part(header, contents={"a": noise("a", size)})


def test_a_full_disk_is_said_and_costs_neither_the_previous_checkpoint_nor_the_next(
    small_disk: Path,
) -> None:
    storage = LocalStorage(small_disk)
    save(storage, 10)
    with pytest.raises(StorageRefused) as raised:
        write_part(storage, large_part(20, 2 * SIZE), attempt="a1", policy=HASTY)
    said = str(raised.value)
    assert "No space left on device" in said
    assert "rank-00000-of-00001.a1.safetensors" in said
    assert "MiB are free there" in said
    assert not list(small_disk.rglob("*.tmp")), "the torn file gave its room back"
    assert newest_whole(CheckpointCatalog(storage)).step == 10
    save(storage, 20)
    assert newest_whole(CheckpointCatalog(storage)).step == 20
