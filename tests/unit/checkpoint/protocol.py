"""Requirements of the commit protocol that every storage has to meet."""

from __future__ import annotations

import pytest

from resile.checkpoint.catalog import CheckpointCatalog, StoredPart
from resile.checkpoint.errors import Superseded
from resile.checkpoint.fence import RoundClaim, claim
from resile.checkpoint.prune import prune, remove_remains
from resile.checkpoint.storage.base import Storage
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.parts import parts_of, save


def keeps_the_protocol(storage: Storage) -> None:
    """Save, find, read and prune whole checkpoints on an empty storage."""
    for step in (10, 20, 30):
        save(storage, step)
    catalog = CheckpointCatalog(storage)
    newest = newest_whole(catalog)
    assert newest.step == 30
    for entry, part in zip(newest.manifest.parts, parts_of(30), strict=True):
        with StoredPart(storage, newest, entry) as stored:
            assert stored.read(0, entry.size) == part
    assert prune(catalog, keep=1).steps == (20, 10)
    assert catalog.steps() == [30]
    fences_rounds_that_are_over(storage)


def fences_rounds_that_are_over(storage: Storage) -> None:
    """A later round continued from step 30: the older one publishes nothing after that step."""
    for number, begin in ((1, 0), (2, 30)):
        attempt = f"r{number}-0000beef"
        claim(storage, RoundClaim(attempt=attempt, run="a", round=number, step=begin, time=0.0))
    with pytest.raises(Superseded, match="round 2 continued from step 30"):
        save(storage, 40, attempt="r1-0000beef")
    save(storage, 40, attempt="r2-0000beef")
    catalog = CheckpointCatalog(storage)
    assert newest_whole(catalog).attempt == "r2-0000beef"
    assert remove_remains(catalog) > 0
    assert not [item for item in storage.list("step-000000040") if "r1-" in item.name]
