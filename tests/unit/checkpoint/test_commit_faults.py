"""The commit protocol with every single operation of the file system failing in turn."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from resile.checkpoint import commit
from resile.checkpoint.catalog import CheckpointCatalog, Depth
from resile.checkpoint.errors import CheckpointError, NoCheckpoint, PartsMissing, StorageError
from resile.checkpoint.storage.base import Storage, open_storage, read_whole
from resile.checkpoint.storage.local import LocalStorage
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.faults import Fault, faulty_system
from tests.unit.checkpoint.parts import parts_of, save


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write parts in several pieces, so that faults can occur between them."""
    monkeypatch.setattr(commit, "PIECE", 200)


def operations_of_a_save(folder: Path) -> list[str]:
    storage = LocalStorage(folder)
    save(storage, 10)
    with faulty_system(-1, Fault.BROKEN) as system:
        save(storage, 20)
    return system.done


def bytes_of(catalog: CheckpointCatalog, step: int) -> list[bytes]:
    checkpoint = catalog.at(step)
    return [
        read_whole(catalog.storage, checkpoint.path(part)) for part in checkpoint.manifest.parts
    ]


def assert_whole_or_absent(catalog: CheckpointCatalog, step: int) -> bool:
    """Whether the checkpoint exists; if it does, it must be intact."""
    try:
        checkpoint = catalog.at(step)
    except NoCheckpoint:
        return False
    assert catalog.damages(checkpoint, Depth.CHECKSUMS) == []
    assert bytes_of(catalog, step) == [bytes(part) for part in parts_of(step)]
    return True


def test_the_protocol_has_the_operations_that_make_it_durable(tmp_path: Path) -> None:
    done = operations_of_a_save(tmp_path)
    # Three parts, three entries and the manifest: each is synced, renamed and synced in its folder.
    assert done.count("rename") == 7
    assert done.count("fsync") == 7 * 2 + 1, "and the new folder in the one above"


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.BROKEN, Fault.TORN], ids=lambda f: f.name)
def test_a_fault_at_any_operation_leaves_the_previous_checkpoint_and_all_or_nothing_of_the_new_one(
    tmp_path: Path, fault: Fault
) -> None:
    count = len(operations_of_a_save(tmp_path / "count"))
    for at in range(count):
        storage = LocalStorage(tmp_path / f"{at}")
        catalog = CheckpointCatalog(storage)
        save(storage, 10)
        raised: CheckpointError | None = None
        with faulty_system(at, fault) as system:
            try:
                save(storage, 20)
            except CheckpointError as error:
                raised = error
        if raised is not None:
            _assert_clear(raised, fault, system.done[at])
        else:
            # The check of the fence after the publication, which has no effect any more.
            assert (at, system.done[at]) == (count - 1, "scandir")
            assert assert_whole_or_absent(catalog, 20)
        assert_whole_or_absent(catalog, 20)
        newest = newest_whole(catalog)
        assert newest.step in (10, 20)
        assert assert_whole_or_absent(catalog, 10)
        save(storage, 20, attempt="a2")
        assert assert_whole_or_absent(catalog, 20), f"after {system.done[at]} number {at}"
        assert not list((tmp_path / f"{at}").rglob("*.tmp")), "a failed write cleans up"


def _assert_clear(error: CheckpointError, fault: Fault, operation: str) -> None:
    assert isinstance(error, StorageError | PartsMissing), operation
    said = "No space left on device" if fault is Fault.FULL else "Input/output error"
    assert said in str(error)
    named = "fence" if operation == "scandir" and "fence" in str(error) else "step-000000020"
    assert named in str(error), "the error names the file or folder"


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.BROKEN, Fault.TORN], ids=lambda f: f.name)
def test_a_fault_while_replacing_a_checkpoint_of_the_same_step_leaves_one_of_the_two(
    tmp_path: Path, fault: Fault
) -> None:
    count = len(operations_of_a_save(tmp_path / "count"))
    old, new = ([bytes(p) for p in parts_of(20, seed=seed)] for seed in ("old", "new"))
    for at in range(count):
        storage = LocalStorage(tmp_path / f"{at}")
        catalog = CheckpointCatalog(storage)
        save(storage, 20, attempt="old", seed="old")
        with faulty_system(at, fault), suppress(CheckpointError):
            save(storage, 20, attempt="new", seed="new")
        assert catalog.damages(catalog.at(20)) == []
        assert bytes_of(catalog, 20) in (old, new)


class FaultyStorage:
    """A storage whose ``at``-th operation fails, before or after it took effect."""

    def __init__(self, inner: Storage, at: int, *, after: bool) -> None:
        self.address = inner.address
        self.done = 0
        self.named = ""
        """The operation that failed."""
        self._inner = inner
        self._at = at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **settings: Any) -> Any:
            self.done += 1
            broken = self.done - 1 == self._at
            self.named = name if broken else self.named
            effect = not broken or self._after
            result = getattr(self._inner, name)(*args, **settings) if effect else None
            if broken:
                raise StorageError(f"cannot {name} {args[0]}: the connection was reset")
            return result

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_request_to_an_object_store_that_fails_leaves_all_or_nothing(after: bool) -> None:
    storage = open_storage("memory://faults", global_store=False)
    save(storage, 10)
    counting = FaultyStorage(storage, -1, after=after)
    save(counting, 20)
    for at in range(counting.done):
        storage = open_storage("memory://faults", global_store=False)
        catalog = CheckpointCatalog(storage)
        save(storage, 10)
        failing = FaultyStorage(storage, at, after=after)
        try:
            save(failing, 20)
        except StorageError as error:
            assert_whole_or_absent(catalog, 20)
            assert "connection was reset" in str(error)  # noqa: PT017
        else:
            # A check of the fence without an effect.
            assert failing.named == "list"
            assert assert_whole_or_absent(catalog, 20)
        assert assert_whole_or_absent(catalog, 10)
        save(storage, 20, attempt="a2")
        assert assert_whole_or_absent(catalog, 20)
