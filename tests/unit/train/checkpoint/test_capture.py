"""The state that a worker saves, and its layout in memory."""

from __future__ import annotations

from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from resile.train.checkpoint.restore.part_tensors import Sources
from resile.train.checkpoint.restore.resharding import PartsReader
from resile.train.checkpoint.save.capture import Capture
from resile.train.checkpoint.state.tree import ModuleNames
from tests.unit.train.checkpoint.parts import save, save_node, written
from tests.unit.train.checkpoint.training import build, train


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        torch.compile,
        lambda model: nn.Sequential(checkpoint_wrapper(model), nn.Linear(1, 1)),
        lambda model: nn.ModuleDict({"module": model}),
    ],
)
def test_names_are_torchs_own_without_wrappers(wrap: Any) -> None:
    model = wrap(build()["model"])
    assert ModuleNames().tensors(model).keys() == get_model_state_dict(model).keys()


def test_a_part_is_a_safetensors_file_with_the_models_names() -> None:
    state = build()
    train(state, 1)
    read = safetensors.torch.load(bytes(save(state)[0].data))
    assert torch.equal(read["model.inner.weight"], state["model"].inner.weight)
    assert "optimizer.state.inner.weight.exp_avg" in read


def test_a_part_keeps_its_size_from_step_to_step() -> None:
    state = build()
    train(state, 1)
    capture = Capture()
    sizes = set()
    for step in (1, 10, 100_000_000):
        state["step"] = step
        captured = capture.take(state, step=step)
        sizes.add((captured.replica.size, captured.rank.size))
    assert len(sizes) == 1


def test_a_capture_sees_what_has_changed_since_the_last() -> None:
    state = build()
    capture = Capture()
    capture.take(state, step=0)
    train(state, 1)
    state["model"].inner = nn.Linear(6, 6, bias=False)
    state["extra"] = torch.ones(3)
    part = written(capture.take(state, step=1).replica)
    assert "optimizer.state.embed.weight.exp_avg" in part.header.slices
    assert "model.inner.bias" not in part.header.slices
    assert part.header.slices["extra"].shape == (3,)


def test_values_are_written_by_the_nodes_first_worker_alone() -> None:
    replicas = save_node({"step": 3}, workers=2)[::2]
    assert replicas[0].header.values == {"step": 3}
    assert replicas[1].header.values is None


def test_torchs_own_load_reads_from_parts() -> None:
    tensor = torch.arange(6.0)
    stored = {"x": Sources(save({"x": tensor})).stored("x")}
    live = {"x": torch.zeros(6)}
    dcp.load(live, storage_reader=PartsReader(stored), no_dist=True)
    assert torch.equal(live["x"], tensor)
