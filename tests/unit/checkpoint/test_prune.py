"""Pruning: what is always kept, and what is never touched."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.checkpoint.catalog import CheckpointCatalog, Depth
from resile.checkpoint.commit import write_part
from resile.checkpoint.errors import StorageRefused
from resile.checkpoint.fence import RoundClaim, claim
from resile.checkpoint.prune import (
    discard_attempt,
    plan_pruning,
    prune,
    remove_remains,
    write_or_make_room,
)
from resile.checkpoint.storage.base import open_storage
from resile.checkpoint.storage.local import LocalStorage
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.parts import HASTY, rank_part, save

OLD = 1_000_000.0


def make_shelf(folder: Path, *steps: int) -> CheckpointCatalog:
    storage = LocalStorage(folder)
    for step in steps:
        save(storage, step, created=OLD + step)
    return CheckpointCatalog(storage)


def steps_of(catalog: CheckpointCatalog) -> list[int]:
    return [one.step for one in catalog.checkpoints()]


def age(path: Path) -> None:
    os.utime(path, (OLD, OLD))


def damage(folder: Path, step: int) -> None:
    (folder / f"step-{step:09d}" / "rank-00000-of-00002.a1.safetensors").unlink()


def test_the_newest_stay_and_the_others_go_with_their_folders(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 10, 20, 30, 40)
    done = prune(catalog, keep=2)
    assert done.steps == (20, 10)
    assert done.size > 2 * 1480
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000030", "step-000000040"]


def test_the_newest_whole_one_stays_when_all_newer_are_damaged(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 10, 20, 30, 40)
    damage(tmp_path, 30)
    damage(tmp_path, 40)
    prune(catalog, keep=1)
    assert steps_of(catalog) == [40, 20]
    assert newest_whole(catalog).step == 20


def test_damage_that_only_checksums_find_can_be_looked_for(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 10, 20)
    file = tmp_path / "step-000000020" / "rank-00000-of-00002.a1.safetensors"
    file.write_bytes(bytes(len(file.read_bytes())))
    assert plan_pruning(catalog, keep=1).steps == (10,)
    assert plan_pruning(catalog, keep=1, depth=Depth.CHECKSUMS).steps == ()


def test_a_run_that_fell_back_keeps_what_it_writes_now(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 40, 50)
    save(catalog.storage, 15, created=OLD + 100)
    prune(catalog, keep=1)
    assert steps_of(catalog) == [50, 15]


def test_old_remains_of_writes_that_never_ended_go(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 20)
    write_part(catalog.storage, rank_part(10, 0), attempt="torn", policy=HASTY)
    write_part(catalog.storage, rank_part(20, 0), attempt="torn", policy=HASTY)
    temporary = tmp_path / "step-000000020" / ".manifest.json.0123abcd.tmp"
    temporary.write_text("half")
    for path in tmp_path.rglob("*"):
        age(path)
    done = prune(catalog, keep=1)
    assert len(done.remains) == 5
    assert done.steps == ()
    assert catalog.damages(catalog.at(20)) == []
    assert not (tmp_path / "step-000000010").exists()
    assert not list(tmp_path.rglob("*torn*"))
    assert not temporary.exists()


def test_remains_of_which_anything_changed_lately_stay(tmp_path: Path) -> None:
    """One rank's part waits for another's, which takes hours."""
    catalog = make_shelf(tmp_path, 20)
    for step in (10, 30):
        for rank in range(2):
            write_part(catalog.storage, rank_part(step, rank), attempt="young", policy=HASTY)
    for path in tmp_path.rglob("rank-00000*young*"):
        age(path)
    assert prune(catalog, keep=1).remains == ()
    assert len(list(tmp_path.rglob("*young*"))) == 8


def test_old_remains_beyond_the_newest_checkpoint_go_and_where_there_is_none(
    tmp_path: Path,
) -> None:
    for folder, steps in (("some", [20]), ("none", [])):
        catalog = make_shelf(tmp_path / folder, *steps)
        write_part(catalog.storage, rank_part(30, 0), attempt="beyond", policy=HASTY)
        for path in tmp_path.rglob("*beyond*"):
            age(path)
        assert len(prune(catalog, keep=1).remains) == 2
    assert not list(tmp_path.rglob("*beyond*"))


def test_what_the_present_round_wrote_beyond_the_newest_checkpoint_stays(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 20)
    mine = RoundClaim(attempt="r2-0000beef", run="a", round=2, step=20, time=0.0)
    claim(catalog.storage, mine)
    write_part(catalog.storage, rank_part(30, 0), attempt=mine.attempt, policy=HASTY)
    for path in tmp_path.rglob("*beef*"):
        age(path)
    assert prune(catalog, keep=1).remains == ()


def test_what_a_round_that_is_over_can_never_publish_goes_at_once(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 20)
    for number, begin in ((1, 0), (2, 20)):
        attempt = f"r{number}-0000beef"
        claim(
            catalog.storage,
            RoundClaim(attempt=attempt, run="a", round=number, step=begin, time=0.0),
        )
    for step in (20, 30):
        write_part(catalog.storage, rank_part(step, 0), attempt="r1-0000beef", policy=HASTY)
    assert remove_remains(catalog) > 0
    assert not list((tmp_path / "step-000000030").glob("*beef*"))
    assert len(list((tmp_path / "step-000000020").glob("*beef*"))) == 2, "may be published yet"


class Full(LocalStorage):
    """A disk with space for this many files."""

    room = 9

    def write(self, path: str, chunks: Iterable[memoryview], **settings: Any) -> None:
        if sum(1 for one in self.root.rglob("*") if one.is_file()) >= self.room:
            raise StorageRefused("cannot write: No space left on device")
        super().write(path, chunks, **settings)


def test_a_disk_that_is_full_of_remains_is_full_no_more(tmp_path: Path) -> None:
    make_shelf(tmp_path, 20)  # seven files, and two more
    write_part(LocalStorage(tmp_path), rank_part(30, 0), attempt="killed", policy=HASTY)
    storage, told = Full(tmp_path), list[str]()

    def write() -> object:
        return write_part(storage, rank_part(40, 0), attempt="a2", policy=HASTY)

    with pytest.raises(StorageRefused):
        write_or_make_room(CheckpointCatalog(storage), write, tell=told.append)
    for path in tmp_path.rglob("*killed*"):
        age(path)
    write_or_make_room(CheckpointCatalog(storage), write, tell=told.append)
    assert told == ["removed 0 MiB left behind by unfinished writes"]


def test_an_attempt_that_is_given_up_is_removed_unless_it_was_published(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 20)
    for attempt in ("lost", "other"):
        write_part(catalog.storage, rank_part(20, 0), attempt=attempt, policy=HASTY)
    discard_attempt(catalog, step=20, attempt="lost")
    discard_attempt(catalog, step=20, attempt="a1")
    discard_attempt(catalog, step=99, attempt="a1")
    assert catalog.damages(catalog.at(20)) == []
    assert not list(tmp_path.rglob("*lost*"))
    assert len(list(tmp_path.rglob("*other*"))) == 2


def test_a_users_own_files_are_never_touched(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 10, 20)
    own = [
        tmp_path / "step-000000010" / "notes.txt",
        tmp_path / "step-000000010" / "model.safetensors",
        tmp_path / "step-000000020" / "rank-of-honour.json",
        tmp_path / "best" / "rank-00000-of-00002.a1.safetensors",
    ]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        age(path)
    prune(catalog, keep=1)
    assert all(path.read_text() == "mine" for path in own)
    assert steps_of(catalog) == [20]


def test_a_checkpoint_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    catalog = make_shelf(tmp_path, 10, 20)
    manifest = tmp_path / "step-000000010" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 4'))
    for path in tmp_path.rglob("*"):
        age(path)
    told: list[str] = []
    prune(catalog, keep=1, tell=told.append)
    assert len(list((tmp_path / "step-000000010").iterdir())) == 7
    assert len(told) == 1


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        prune(make_shelf(tmp_path, 10), keep=0)


@settings(deadline=None)
@given(
    saved=st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=8),
    keep=st.integers(1, 4),
)
def test_whatever_was_saved_in_whatever_order_the_newest_and_a_whole_one_stay(
    saved: list[tuple[int, bool]], keep: int
) -> None:
    storage = open_storage("memory://prune", global_store=False)
    catalog = CheckpointCatalog(storage)
    for when, (step, whole) in enumerate(saved):
        save(storage, step, created=OLD + when)
        if not whole:
            storage.delete([f"step-{step:09d}/rank-00000-of-00002.a1.safetensors"])
    before = steps_of(catalog)
    whole_before = [
        one.step for one in catalog.checkpoints() if not catalog.damages(one, Depth.SIZES)
    ]
    prune(catalog, keep=keep)
    after = steps_of(catalog)
    assert after[:keep] == before[:keep]
    assert saved[-1][0] in after, "what was written last stays"
    assert len(after) <= 2 * keep + 1
    assert whole_before[:1] == [step for step in after if step in whole_before][:1]
