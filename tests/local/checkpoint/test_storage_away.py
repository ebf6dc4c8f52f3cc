"""Storage that becomes unavailable during a save and comes back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import StorageError
from resile.checkpoint.storage.local import LocalStorage
from resile.checkpoint.storage.retry import RetryPolicy
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.parts import HASTY, REPLICAS, WORLD, parts_of, save

LONG = RetryPolicy(60.0, longest_pause=0.05)


def send_away(folder: Path) -> None:
    """Replace it by a dangling link, which is what a lost mount looks like to a writer."""
    folder.rename(folder.with_name("away"))
    folder.symlink_to(folder.with_name("nowhere") / "deeper")


def bring_back(folder: Path) -> None:
    folder.unlink()
    folder.with_name("away").rename(folder)


def test_a_write_goes_on_when_storage_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    storage = LocalStorage(folder)
    save(storage, 10)
    send_away(folder)
    troubled = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for part in parts_of(20):
                write_part(storage, part, attempt="a1", policy=LONG, tell=lambda _: troubled.set())
            publish(storage, step=20, world=WORLD, replicas=REPLICAS, attempt="a1", policy=LONG)
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=run)
    writer.start()
    assert troubled.wait(60.0)
    bring_back(folder)
    writer.join(60.0)
    assert not writer.is_alive()
    assert failed == []
    catalog = CheckpointCatalog(storage)
    assert newest_whole(catalog).step == 20
    assert catalog.damages(catalog.at(10)) == []


def test_storage_that_stays_away_is_given_up_with_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    storage = LocalStorage(folder)
    save(storage, 10)
    send_away(folder)
    with pytest.raises(StorageError, match=str(folder)):
        save(storage, 20, policy=HASTY)
    bring_back(folder)
    assert newest_whole(CheckpointCatalog(storage)).step == 10
