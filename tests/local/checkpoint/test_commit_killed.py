"""The commit protocol killed with SIGKILL at every single operation, in a real process."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.errors import NoCheckpoint
from resile.checkpoint.prune import prune
from resile.checkpoint.storage.base import read_whole
from resile.checkpoint.storage.local import LocalStorage
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.faults import Fault, faulty_system
from tests.unit.checkpoint.parts import parts_of, save


@contextmanager
def forked() -> Iterator[None]:
    """Run the block in a forked child, and exit before the rest of the test."""
    try:
        yield
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def run_killed(
    storage: LocalStorage, at: int, fault: Fault, *, pruning: bool = False, group: str = ""
) -> bool:
    """Save step 20 in a child that is killed at an operation; False if it finished before."""
    child = os.fork()
    if child == 0:
        with forked(), faulty_system(at, fault):
            prune(CheckpointCatalog(storage), keep=1) if pruning else save(storage, 20, group=group)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "it was neither killed nor did it succeed"
    return False


def assert_whole(catalog: CheckpointCatalog, step: int) -> None:
    checkpoint = catalog.at(step)
    assert catalog.damages(checkpoint) == []
    found = [
        read_whole(catalog.storage, checkpoint.path(part)) for part in checkpoint.manifest.parts
    ]
    assert found == [bytes(part) for part in parts_of(step, group=catalog.group)]


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.KILLED_TORN], ids=lambda f: f.name)
def test_a_kill_at_any_operation_leaves_the_previous_checkpoint_and_all_or_nothing_of_the_new_one(
    tmp_path: Path, fault: Fault
) -> None:
    at = outcomes = 0
    while True:
        storage = LocalStorage(tmp_path / str(at))
        catalog = CheckpointCatalog(storage)
        save(storage, 10)
        if not run_killed(storage, at, fault):
            break
        assert_whole(catalog, 10)
        try:
            assert_whole(catalog, 20)
            outcomes |= 2
        except NoCheckpoint:
            outcomes |= 1
        save(storage, 20, attempt="a2")
        assert_whole(catalog, 20)
        assert newest_whole(catalog).step == 20
        at += 1
    assert at > 40, "every operation of seven files was met"
    assert outcomes == 3, "some kills came before the manifest's name and some after"


def test_remains_of_killed_writes_are_pruned_and_nothing_else(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for at in (5, 9, 20, 33):
        assert run_killed(storage, at, Fault.KILLED_TORN)
    save(storage, 20, attempt="a2")
    assert list(tmp_path.rglob("*.tmp"))
    prune(CheckpointCatalog(storage), keep=1, remains_age=-1.0)
    assert not list(tmp_path.rglob("*.tmp"))
    assert {path.name.split(".")[1] for path in tmp_path.rglob("*.safetensors")} == {"a2"}
    assert_whole(CheckpointCatalog(storage), 20)


def test_pruning_killed_at_any_operation_leaves_only_whole_checkpoints(tmp_path: Path) -> None:
    at = 0
    while True:
        storage = LocalStorage(tmp_path / str(at))
        catalog = CheckpointCatalog(storage)
        for step in (10, 20, 30):
            save(storage, step)
        if not run_killed(storage, at, Fault.KILLED, pruning=True):
            break
        for checkpoint in catalog.checkpoints():
            assert_whole(catalog, checkpoint.step)
        assert_whole(catalog, 30)
        prune(catalog, keep=1, remains_age=-1.0)
        files = [path for path in (tmp_path / str(at)).rglob("*") if path.is_file()]
        assert {path.parent.name for path in files} == {"step-000000030"}
        at += 1
    assert at > 10


def test_a_group_that_is_killed_at_any_operation_leaves_the_others_as_they_are(
    tmp_path: Path,
) -> None:
    """Both save the same step at the same time, under the same attempt."""
    at = 0
    while True:
        storage = LocalStorage(tmp_path / str(at))
        train, evaluate = CheckpointCatalog(storage), CheckpointCatalog(storage, "evaluate")
        save(storage, 10)
        save(storage, 10, group="evaluate")
        other = os.fork()
        if other == 0:
            with forked():
                save(storage, 20)
        killed = run_killed(storage, at, Fault.KILLED, group="evaluate")
        assert os.waitpid(other, 0)[1] == 0
        assert_whole(train, 20)
        assert_whole(evaluate, 10)
        prune(train, keep=1, remains_age=-1.0)
        assert train.steps() == [20]
        if not killed:
            break
        save(storage, 20, attempt="a2", group="evaluate")
        assert_whole(evaluate, 20)
        at += 1
    assert newest_whole(evaluate).step == 20
    assert at > 40
