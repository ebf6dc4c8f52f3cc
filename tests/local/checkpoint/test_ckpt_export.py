"""A script's real state, saved by two workers, exported as files that torch reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file
from torch import nn

from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.storage.local import LocalStorage
from resile.cli.main import cli
from resile.train.checkpoint.save.capture import Capture

WORLD = 2


class Tied(nn.Module):
    """Two layers that share their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(600, 600)
        self.second = nn.Linear(600, 600)
        self.second.weight = self.first.weight
        self.small = nn.Parameter(torch.randn(3, 5).to(torch.bfloat16))
        self.register_buffer("empty", torch.empty(0, 4))


class Position:
    """A position in the data that differs between ranks."""

    resile_per_rank = True

    def state_dict(self) -> dict[str, int]:
        return {"done": 3}

    def load_state_dict(self, _state: dict[str, int]) -> None:
        raise AssertionError("nothing is restored here")


class Opaque:
    """Something that only pickle can write."""


@pytest.fixture
def model() -> Tied:
    torch.manual_seed(1)
    return Tied()


def trained_state(model: Tied) -> dict[str, Any]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "data": Position(),
        "step": 7,
        "best": (0.5, float("inf")),
        "names": {1: "one", "two": [None, True]},
    }


def save(folder: Path, state: dict[str, Any], *, trust: bool = False) -> None:
    storage = LocalStorage(folder)
    for rank in range(WORLD):
        capture = Capture(rank=rank, world=WORLD, local_rank=rank, local_world=WORLD, trust=trust)
        captured = capture.take(state, step=7)
        for portion in (captured.replica, captured.rank):
            buffer = memoryview(bytearray(portion.size))
            portion.write(buffer)
            write_part(storage, buffer, attempt="a1")
    publish(storage, step=7, world=WORLD, replicas=WORLD, attempt="a1")


def export(*args: object) -> Result:
    return CliRunner().invoke(cli, ["ckpt", "export", *map(str, args)])


def test_a_pt_file_holds_the_state_as_the_script_gave_it(tmp_path: Path, model: Tied) -> None:
    state = trained_state(model)
    save(tmp_path / "c", state)
    done = export(tmp_path / "c", tmp_path / "state.pt")
    assert done.exit_code == 0, done.output
    found = torch.load(tmp_path / "state.pt", weights_only=True)
    fresh = Tied()
    fresh.load_state_dict(found["model"])
    for name, tensor in model.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], tensor), name
    weights = found["model"]
    assert weights["first.weight"].data_ptr() == weights["second.weight"].data_ptr()
    moments = found["optimizer"]["state"]["first.weight"]
    assert torch.equal(moments["exp_avg"], state["optimizer"].state[model.first.weight]["exp_avg"])
    assert found["scheduler"]["last_epoch"] == state["scheduler"].last_epoch
    assert found["data"] is None
    assert (found["step"], found["best"]) == (7, (0.5, float("inf")))
    assert found["names"] == {1: "one", "two": [None, True]}


def test_one_entry_can_be_loaded_into_the_model_as_it_is(tmp_path: Path, model: Tied) -> None:
    save(tmp_path / "c", trained_state(model))
    assert export(tmp_path / "c", tmp_path / "model.pt", "--only", "model").exit_code == 0
    Tied().load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    done = export(tmp_path / "c", tmp_path / "x.pt", "--only", "modl")
    assert done.exit_code == 1
    assert "no entry 'modl'; it has model, optimizer, scheduler" in done.stderr


def test_a_safetensors_file_holds_every_tensor_once(tmp_path: Path, model: Tied) -> None:
    save(tmp_path / "c", trained_state(model))
    done = export(tmp_path / "c", tmp_path / "model.safetensors", "--only", "model")
    assert done.exit_code == 0, done.output
    found = load_file(tmp_path / "model.safetensors")
    expected = model.state_dict()
    assert set(found) == set(expected) - {"second.weight"}, "tied weights have one name"
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name
        assert tensor.dtype == expected[name].dtype


def test_what_torch_would_refuse_to_load_is_refused_now_and_leaves_no_file(
    tmp_path: Path, model: Tied
) -> None:
    save(tmp_path / "c", {"model": model, "odd": Opaque()}, trust=True)
    done = export(tmp_path / "c", tmp_path / "state.pt")
    assert done.exit_code == 1
    assert "odd is a " in done.stderr
    assert "Export only one entry of the state, such as model." in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert export(tmp_path / "c", tmp_path / "model.pt", "--only", "model").exit_code == 0
