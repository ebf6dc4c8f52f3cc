"""Temporary folders have names that anybody can guess: what others put there is left alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from resile.agent.logs import LogRouting, log_root, remove_temporary

DEAD = "999999999"
"""No process has this id: Linux counts to 4,194,304."""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for everybody's temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def ours(shared: Path) -> Path:
    return shared / f"resile-{os.getuid()}"


def test_folders_of_dead_agents_are_removed(shared: Path) -> None:
    (ours(shared) / DEAD / "attempt_0").mkdir(parents=True)
    ours(shared).chmod(0o700)
    root = log_root(LogRouting(), "j")
    assert not (ours(shared) / DEAD).exists()
    remove_temporary(root)
    assert list(shared.iterdir()) == []


def test_a_link_in_the_folders_place_leads_to_no_removal(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "checkpoints" / DEAD
    precious.mkdir(parents=True)
    ours(shared).symlink_to(precious.parent)
    root = log_root(LogRouting(), "j")
    assert precious.exists()
    assert root.parent == shared
    remove_temporary(root)
    assert precious.exists()


def test_a_folder_that_others_can_write_is_not_used(shared: Path) -> None:
    (ours(shared) / DEAD).mkdir(parents=True)
    ours(shared).chmod(0o777)
    root = log_root(LogRouting(), "j")
    assert root.parent == shared
    assert (ours(shared) / DEAD).exists()
