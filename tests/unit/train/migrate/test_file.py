"""The saved file restores exactly, and can be inspected without Resile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from resile.train.checkpoint.errors import StateMismatch
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.migrate.errors import MigrationDamaged
from resile.train.migrate.file import SavedState, clear_remains, gather, write

ALONE = RankInfo(rank=0, world=1, local_rank=0, local_world=1, group_rank=0, nodes=1, round=0)


class Tied(nn.Module):  # type: ignore[misc]
    """Two names for one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs))


def made(*, steps: int = 0) -> dict[str, Any]:
    torch.manual_seed(steps)
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    return {
        "model": model,
        "optimizer": optimizer,
        "metrics": {"epoch": steps, "best": (steps, 0.5), 3: {"set", "of"}},
        "losses": [0.25] * steps,
        "stream": torch.Generator().manual_seed(steps),
        "table": np.arange(6.0) * steps,
    }


def save(state: dict[str, Any], path: Path, *, step: int = 5) -> None:
    gathered = gather(state, RoundChannel(ALONE, None), step=step)
    assert gathered is not None
    write(gathered, path)


def test_everything_comes_back_into_the_same_objects(tmp_path: Path) -> None:
    path = tmp_path / "new" / "migration.pth"
    before = made(steps=3)
    expected_stream = before["stream"].get_state()
    save(before, path)
    expected_random = torch.rand(3)
    state = made()
    objects = dict(state)
    saved = SavedState(path)
    assert (saved.step, saved.world) == (5, 1)
    saved.load(state, rank=0)
    assert torch.equal(torch.rand(3), expected_random)
    assert all(state[name] is one for name, one in objects.items())
    for name, tensor in before["model"].state_dict().items():
        assert torch.equal(state["model"].state_dict()[name], tensor)
    assert str(state["optimizer"].state_dict()) == str(before["optimizer"].state_dict())
    assert state["metrics"] == before["metrics"]
    assert state["losses"] == before["losses"]
    assert torch.equal(state["stream"].get_state(), expected_stream)
    assert (state["table"] == before["table"]).all()


def test_the_file_can_be_looked_into_with_weights_only(tmp_path: Path) -> None:
    save(made(steps=2), tmp_path / "migration.pth")
    found = torch.load(tmp_path / "migration.pth", weights_only=True)
    assert set(found) == {*made(), "resile"}
    assert set(found["model"]) == set(Tied().state_dict())
    assert found["metrics"]["epoch"] == 2


def test_one_name_can_be_loaded_alone(tmp_path: Path) -> None:
    before = made(steps=2)
    save(before, tmp_path / "migration.pth")
    saved = SavedState(tmp_path / "migration.pth")
    metrics: dict[Any, Any] = {}
    assert saved.load_one("metrics", metrics, rank=0)
    assert metrics == before["metrics"]
    after = made()
    assert saved.load_one("optimizer", after["optimizer"], rank=0)
    assert str(after["optimizer"].state_dict()) == str(before["optimizer"].state_dict())
    assert not saved.load_one("unknown", {}, rank=0)


def test_other_registered_names_are_refused_by_name(tmp_path: Path) -> None:
    save(made(steps=1), tmp_path / "migration.pth")
    state = {**made(), "scheduler": {"last": 1}}
    with pytest.raises(StateMismatch, match="scheduler"):
        SavedState(tmp_path / "migration.pth").load(state, rank=0)


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 not a zip"])
def test_a_file_of_something_else_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "migration.pth").write_bytes(content)
    with pytest.raises(MigrationDamaged, match=r"migration\.pth"):
        SavedState(tmp_path / "migration.pth")


@pytest.mark.parametrize("content", [[1], {"model": {}}, {"resile": {"format": 99}}])
def test_a_file_of_somebody_elses_is_named(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "migration.pth")
    with pytest.raises(MigrationDamaged, match=r"migration\.pth"):
        SavedState(tmp_path / "migration.pth")


def test_remains_of_killed_saves_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".migration.pth.1234abcd.tmp").touch()
    (tmp_path / "migration.pth").touch()
    clear_remains(tmp_path / "migration.pth")
    assert [one.name for one in tmp_path.iterdir()] == ["migration.pth"]
