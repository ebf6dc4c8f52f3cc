"""Pruning: what stays whatever happens, and what is never touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.commit import write_part
from resile.checkpoint.local_storage import LocalStorage
from resile.checkpoint.prune import plan_pruning, prune
from resile.checkpoint.shelf import Depth, Shelf
from resile.checkpoint.storage import open_storage
from tests.unit.checkpoint.parts import HASTY, rank_part, save

OLD = 1_000_000.0


def make_shelf(folder: Path, *steps: int) -> Shelf:
    storage = LocalStorage(folder)
    for step in steps:
        save(storage, step, created=OLD + step)
    return Shelf(storage)


def steps_of(shelf: Shelf) -> list[int]:
    return [one.step for one in shelf.checkpoints()]


def age(path: Path) -> None:
    os.utime(path, (OLD, OLD))


def damage(folder: Path, step: int) -> None:
    (folder / f"step-{step:09d}" / "rank-00000-of-00002.a1.safetensors").unlink()


def test_the_newest_stay_and_the_others_go_with_their_folders(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 10, 20, 30, 40)
    done = prune(shelf, keep=2)
    assert done.steps == (20, 10)
    assert done.size > 2 * 1480
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000030", "step-000000040"]


def test_the_newest_whole_one_stays_when_all_newer_are_damaged(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 10, 20, 30, 40)
    damage(tmp_path, 30)
    damage(tmp_path, 40)
    prune(shelf, keep=1)
    assert steps_of(shelf) == [40, 20]
    assert shelf.newest_whole(tell=lambda _: None).step == 20


def test_damage_that_only_checksums_find_can_be_looked_for(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 10, 20)
    file = tmp_path / "step-000000020" / "rank-00000-of-00002.a1.safetensors"
    file.write_bytes(bytes(len(file.read_bytes())))
    assert plan_pruning(shelf, keep=1).steps == (10,)
    assert plan_pruning(shelf, keep=1, depth=Depth.CHECKSUMS).steps == ()


def test_a_run_that_fell_back_keeps_what_it_writes_now(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 40, 50)
    save(shelf.storage, 15, created=OLD + 100)
    prune(shelf, keep=1)
    assert steps_of(shelf) == [50, 15]


def test_old_remains_of_writes_that_never_ended_go(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 20)
    write_part(shelf.storage, rank_part(10, 0), attempt="torn", patience=HASTY)
    write_part(shelf.storage, rank_part(20, 0), attempt="torn", patience=HASTY)
    temporary = tmp_path / "step-000000020" / ".manifest.json.0123abcd.tmp"
    temporary.write_text("half")
    for path in tmp_path.rglob("*"):
        age(path)
    done = prune(shelf, keep=1)
    assert len(done.remains) == 5
    assert done.steps == ()
    assert shelf.damages(shelf.at(20)) == []
    assert not (tmp_path / "step-000000010").exists()
    assert not list(tmp_path.rglob("*torn*"))
    assert not temporary.exists()


def test_young_remains_and_those_beyond_the_newest_checkpoint_stay(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 20)
    write_part(shelf.storage, rank_part(10, 0), attempt="young", patience=HASTY)
    write_part(shelf.storage, rank_part(30, 0), attempt="beyond", patience=HASTY)
    for path in tmp_path.rglob("*beyond*"):
        age(path)
    assert prune(shelf, keep=1).remains == ()
    assert len(list(tmp_path.rglob("*young*"))) == 2
    assert len(list(tmp_path.rglob("*beyond*"))) == 2


def test_without_any_checkpoint_nothing_is_removed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    write_part(storage, rank_part(10, 0), attempt="only", patience=HASTY)
    for path in tmp_path.rglob("*"):
        age(path)
    assert prune(Shelf(storage), keep=1).remains == ()
    assert len(list(tmp_path.rglob("*only*"))) == 2


def test_a_users_own_files_are_never_touched(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 10, 20)
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
    prune(shelf, keep=1)
    assert all(path.read_text() == "mine" for path in own)
    assert steps_of(shelf) == [20]


def test_a_checkpoint_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    shelf = make_shelf(tmp_path, 10, 20)
    manifest = tmp_path / "step-000000010" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 3'))
    for path in tmp_path.rglob("*"):
        age(path)
    told: list[str] = []
    prune(shelf, keep=1, tell=told.append)
    assert len(list((tmp_path / "step-000000010").iterdir())) == 7
    assert len(told) == 1


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        prune(make_shelf(tmp_path, 10), keep=0)


@given(
    saved=st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=8),
    keep=st.integers(1, 4),
)
def test_whatever_was_saved_in_whatever_order_the_newest_and_a_whole_one_stay(
    saved: list[tuple[int, bool]], keep: int
) -> None:
    storage = open_storage("memory://prune", global_store=False)
    shelf = Shelf(storage)
    for when, (step, whole) in enumerate(saved):
        save(storage, step, created=OLD + when)
        if not whole:
            storage.delete([f"step-{step:09d}/rank-00000-of-00002.a1.safetensors"])
    before = steps_of(shelf)
    whole_before = [one.step for one in shelf.checkpoints() if not shelf.damages(one, Depth.SIZES)]
    prune(shelf, keep=keep)
    after = steps_of(shelf)
    assert after[:keep] == before[:keep]
    assert saved[-1][0] in after, "what was written last stays"
    assert len(after) <= 2 * keep + 1
    assert whole_before[:1] == [step for step in after if step in whole_before][:1]
