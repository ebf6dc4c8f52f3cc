"""Restoring a checkpoint runs no code that it contains, unless the script allows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from resile import Checkpointer
from resile.checkpoint.errors import NotTrusted
from resile.train.checkpoint.errors import UnsupportedState


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """A checkpoint with a bomb in it."""
    state = {**new_state(), "extra": {"it": Bomb(tmp_path / "ran")}}
    with Checkpointer(tmp_path / "checkpoints", quiet=True) as checkpointer:
        checkpointer.restore(state)
        for save in (checkpointer.step, checkpointer.save):
            with pytest.raises(UnsupportedState, match=r"extra\.it is a .*Bomb, which could only"):
                save(6, state)
    with Checkpointer(tmp_path / "checkpoints", quiet=True, trust=True) as checkpointer:
        checkpointer.restore(state)
        checkpointer.save(6, state, timeout=60)
    # Saving checks whether the value needs trust; that must not run it either.
    assert not (tmp_path / "ran").exists()
    return tmp_path / "checkpoints"


def new_state() -> dict[str, Any]:
    return {"model": torch.nn.Linear(2, 2), "extra": {"it": None}, "step": 0}


def test_it_is_refused_by_name_and_nothing_is_changed(checkpoints: Path, tmp_path: Path) -> None:
    state = new_state()
    before = state["model"].weight.clone()
    with Checkpointer(checkpoints, quiet=True) as checkpointer:
        said = r"extra\.it is a .*Bomb: reading it can run code .* restore with trust=True"
        with pytest.raises(NotTrusted, match=said):
            checkpointer.restore(state)
    assert not (tmp_path / "ran").exists()
    assert state["step"] == 0
    assert torch.equal(state["model"].weight, before)


def test_who_trusts_it_gets_it(checkpoints: Path, tmp_path: Path) -> None:
    with Checkpointer(checkpoints, quiet=True, trust=True) as checkpointer:
        assert checkpointer.restore(new_state()) == 7
    assert (tmp_path / "ran").exists()
