"""What every storage has to do for the commit protocol."""

from __future__ import annotations

from resile.checkpoint.prune import prune
from resile.checkpoint.shelf import Shelf
from resile.checkpoint.storage import Storage
from resile.checkpoint.stored_part import StoredPart
from tests.unit.checkpoint.parts import parts_of, save


def keeps_the_protocol(storage: Storage) -> None:
    """Save, find, read and prune whole checkpoints on an empty storage."""
    for step in (10, 20, 30):
        save(storage, step)
    shelf = Shelf(storage)
    newest = shelf.newest_whole()
    assert newest.step == 30
    for entry, part in zip(newest.manifest.parts, parts_of(30), strict=True):
        with StoredPart(storage, newest, entry) as stored:
            assert stored.read(0, entry.size) == part
    assert prune(shelf, keep=1).steps == (20, 10)
    assert shelf.steps() == [30]
