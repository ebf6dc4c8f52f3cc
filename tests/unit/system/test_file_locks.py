"""Whether a lock is held, without disturbing its holder."""

from __future__ import annotations

import fcntl
from pathlib import Path

from resile.system.processes import is_locked


def test_a_lock_is_seen_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_locked(file)
    with file.open("w") as held:
        assert not is_locked(file)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert is_locked(file)
    assert not is_locked(file)


def test_one_that_looks_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with file.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(file)
