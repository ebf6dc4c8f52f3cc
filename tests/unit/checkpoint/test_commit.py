"""Writing parts and publishing them: what is waited for, and what is never mixed."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import xxhash

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import new_attempt, publish, write_part
from resile.checkpoint.errors import (
    NoCheckpoint,
    PartDamaged,
    PartsMissing,
    StorageError,
    StorageRefused,
)
from resile.checkpoint.storage.base import read_whole
from resile.checkpoint.storage.local import LocalStorage
from resile.checkpoint.storage.retry import RetryPolicy
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.faults import Fault, faulty_system
from tests.unit.checkpoint.parts import (
    HASTY,
    REPLICAS,
    WORLD,
    parts_of,
    rank_part,
    replica_part,
    save,
)


class VirtualTime:
    """A clock that advances only by sleeping; ``then`` happens at a given time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: dict[float, Callable[[], object]] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in [when for when in self.events if when <= self.now]:
            self.events.pop(when)()

    def policy(self, seconds: float) -> RetryPolicy:
        return RetryPolicy(seconds, clock=lambda: self.now, sleep=self.sleep)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "checkpoints")


def publish_step(storage: LocalStorage, step: int, *, attempt: str, policy: RetryPolicy) -> None:
    publish(storage, step=step, world=WORLD, replicas=REPLICAS, attempt=attempt, policy=policy)


def test_a_part_is_written_to_the_byte_with_its_size_and_checksum(storage: LocalStorage) -> None:
    part = rank_part(5, 1)
    entry = write_part(storage, part, attempt="a1", policy=HASTY)
    assert entry.name == "rank-00001-of-00002.a1"
    assert entry.size == len(part)
    assert entry.checksum == xxhash.xxh3_128_hexdigest(part)
    assert read_whole(storage, f"step-000000005/{entry.name}.safetensors") == bytes(part)


def test_what_follows_a_part_in_its_slot_is_not_written(storage: LocalStorage) -> None:
    part = rank_part(5, 0)
    entry = write_part(storage, memoryview(bytes(part) + b"rest"), attempt="a1", policy=HASTY)
    assert entry.size == len(part)


def test_a_checkpoint_without_a_manifest_does_not_exist(storage: LocalStorage) -> None:
    for part in parts_of(5):
        write_part(storage, part, attempt="a1", policy=HASTY)
    with pytest.raises(NoCheckpoint):
        newest_whole(CheckpointCatalog(storage))


def test_publishing_waits_for_the_part_of_a_slow_writer(storage: LocalStorage) -> None:
    *early, late = parts_of(5)
    for part in early:
        write_part(storage, part, attempt="a1", policy=HASTY)
    time = VirtualTime()
    time.events[20.0] = lambda: write_part(storage, late, attempt="a1", policy=HASTY)
    publish_step(storage, 5, attempt="a1", policy=time.policy(60.0))
    assert 20.0 <= time.now < 30.0
    assert newest_whole(CheckpointCatalog(storage)).step == 5


def test_parts_that_never_come_are_named_and_the_folder_is_asked_about(
    storage: LocalStorage,
) -> None:
    write_part(storage, rank_part(5, 0), attempt="a1", policy=HASTY)
    time = VirtualTime()
    with pytest.raises(PartsMissing) as raised:
        publish_step(storage, 5, attempt="a1", policy=time.policy(60.0))
    said = str(raised.value)
    assert "2 of 3 parts were not written in time" in said
    assert "rank-00001-of-00002, replica-00000-of-00001" in said
    assert "Do all nodes see the same folder" in said
    assert time.now == pytest.approx(60.0)


def test_a_world_with_many_missing_parts_is_counted_rather_than_listed(
    storage: LocalStorage,
) -> None:
    with pytest.raises(PartsMissing, match=r"rank-00004-of-00512 and 508 more"):
        publish(storage, step=5, world=512, replicas=1, attempt="a1", policy=HASTY)


def test_parts_of_an_older_attempt_never_complete_a_newer_one(storage: LocalStorage) -> None:
    for part in parts_of(5, seed="old"):
        write_part(storage, part, attempt="old", policy=HASTY)
    write_part(storage, rank_part(5, 0, seed="new"), attempt="new", policy=HASTY)
    with pytest.raises(PartsMissing, match="rank-00001-of-00002, replica-00000-of-00001"):
        publish_step(storage, 5, attempt="new", policy=HASTY)


def test_a_writer_left_over_from_an_older_attempt_cannot_touch_a_newer_checkpoint(
    storage: LocalStorage,
) -> None:
    save(storage, 5, attempt="new", seed="new")
    for part in parts_of(5, seed="old"):
        write_part(storage, part, attempt="old", policy=HASTY)
    catalog = CheckpointCatalog(storage)
    assert catalog.damages(catalog.at(5)) == []
    assert {part.name.partition(".")[2] for part in catalog.at(5).manifest.parts} == {"new"}


def test_parts_of_another_world_or_split_are_not_mixed_in(storage: LocalStorage) -> None:
    for rank in range(4):
        write_part(storage, rank_part(5, rank, world=4), attempt="a1", policy=HASTY)
    write_part(storage, replica_part(5, 0, count=2), attempt="a1", policy=HASTY)
    with pytest.raises(PartsMissing, match="3 of 3"):
        publish_step(storage, 5, attempt="a1", policy=HASTY)


def test_an_entry_whose_part_has_another_size_does_not_count(
    storage: LocalStorage, tmp_path: Path
) -> None:
    for part in parts_of(5):
        write_part(storage, part, attempt="a1", policy=HASTY)
    file = tmp_path / "checkpoints/step-000000005/rank-00000-of-00002.a1.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PartsMissing, match="rank-00000-of-00002"):
        publish_step(storage, 5, attempt="a1", policy=HASTY)


def test_a_torn_entry_counts_as_not_there_until_it_is_written_again(
    storage: LocalStorage, tmp_path: Path
) -> None:
    parts = parts_of(5)
    for part in parts:
        write_part(storage, part, attempt="a1", policy=HASTY)
    file = tmp_path / "checkpoints/step-000000005/rank-00000-of-00002.a1.json"
    file.write_bytes(file.read_bytes()[:20])
    time = VirtualTime()
    time.events[5.0] = lambda: write_part(storage, parts[0], attempt="a1", policy=HASTY)
    publish_step(storage, 5, attempt="a1", policy=time.policy(60.0))
    assert newest_whole(CheckpointCatalog(storage)).step == 5


def test_attempts_have_names_of_their_own() -> None:
    assert len({new_attempt(3) for _ in range(100)}) == 100


@pytest.mark.parametrize("attempt", ["", "a/b", "a.b", "..", "a b"])
def test_an_attempt_that_cannot_be_part_of_a_files_name_is_refused(
    storage: LocalStorage, attempt: str
) -> None:
    with pytest.raises(ValueError, match="attempt"):
        write_part(storage, rank_part(5, 0), attempt=attempt, policy=HASTY)


def test_memory_that_holds_no_part_is_refused(storage: LocalStorage) -> None:
    with pytest.raises(PartDamaged, match="snapshot in memory"):
        write_part(storage, memoryview(bytes(4096)), attempt="a1", policy=HASTY)


def test_a_part_that_is_cut_off_in_memory_is_refused(storage: LocalStorage) -> None:
    with pytest.raises(PartDamaged, match="truncated: 379 bytes of 380"):
        write_part(storage, rank_part(5, 0)[:-1], attempt="a1", policy=HASTY)


def test_trouble_that_passes_is_told_of_once_and_then_over(storage: LocalStorage) -> None:
    time, told = VirtualTime(), list[str]()
    with faulty_system(0, Fault.BROKEN):
        entry = write_part(
            storage,
            rank_part(5, 0),
            attempt="a1",
            policy=time.policy(60.0),
            tell=told.append,
        )
    assert entry.checksum == xxhash.xxh3_128_hexdigest(rank_part(5, 0))
    assert len(told) == 1
    assert "Input/output error; retrying for 60 s" in told[0]


def test_a_full_disk_is_not_tried_again(storage: LocalStorage) -> None:
    time = VirtualTime()
    with faulty_system(0, Fault.FULL), pytest.raises(StorageRefused, match="No space left"):
        write_part(storage, rank_part(5, 0), attempt="a1", policy=time.policy(60.0))
    assert time.now == 0.0


@pytest.mark.parametrize("at", range(12))
def test_memory_can_be_unmapped_after_a_write_that_failed(storage: LocalStorage, at: int) -> None:
    part = rank_part(5, 0)
    with closing(mmap.mmap(-1, len(part))) as mapping:
        mapping[:] = bytes(part)
        with (
            memoryview(mapping) as view,
            faulty_system(at, Fault.TORN),
            pytest.raises(StorageError) as raised,
        ):
            write_part(storage, view, attempt="a1", policy=HASTY)
    assert raised.value.__traceback__ is not None, "its frames still hold what they held"
