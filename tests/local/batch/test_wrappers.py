"""The gradient is the same with every supported wrapper and option."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resile.train.batch import BatchMistake, ElasticTrainer
from resile.train.data import ElasticBatchSampler
from tests.local.batch.test_same_curve import ROUNDING, VISIBLE
from tests.local.batch.training import Recipe, elastic, make_data, undisturbed
from tests.local.batch.worlds import run_world


@pytest.mark.parametrize("option", ["gradient_as_bucket_view", "find_unused_parameters"])
def test_ddp_may_have_this_option(option: str, tmp_path: Path) -> None:
    recipe = Recipe(wrapper_options={option: True})
    run = elastic(recipe, [(3, 5)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 5)) < ROUNDING


@pytest.mark.parametrize("wrapper", ["hooked ddp", "compiled ddp"])
def test_ddp_may_have_a_hook_or_be_compiled(wrapper: str, tmp_path: Path) -> None:
    recipe = Recipe(wrapper=wrapper)
    run = elastic(recipe, [(3, 5)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 5)) < ROUNDING


def test_equal_passes_change_nothing_in_the_gradient(tmp_path: Path) -> None:
    recipe = Recipe(passes="equal")
    run = elastic(recipe, [(4, 5)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 5)) < ROUNDING


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("way", ["elastic", "counts"])
def test_fsdp2_trains_like_one_rank(world: int, way: str, tmp_path: Path) -> None:
    recipe = Recipe(wrapper="fsdp2", way=way, max_norm=None if way == "counts" else 0.05)
    run = elastic(recipe, [(world, 5)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 5, counts=way == "counts")) < ROUNDING


def test_a_grad_scaler_and_clipping_go_together(tmp_path: Path) -> None:
    recipe = Recipe(grad_scaler=True, max_norm=0.05)
    run = elastic(recipe, [(3, 5)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 5)) < ROUNDING


def test_batch_norm_trains_with_idle_ranks_and_is_not_the_same_as_one_rank(tmp_path: Path) -> None:
    recipe = Recipe(batch_norm=True)
    run = elastic(recipe, [(4, 9)], folder=tmp_path)
    assert all(math.isfinite(loss) for loss in run.losses)
    assert run.distance(undisturbed(recipe, 9)) > VISIBLE


def test_what_cannot_be_averaged_is_refused(tmp_path: Path) -> None:
    run_world(2, _refused, folder=tmp_path)


def _refused() -> None:
    model = nn.Linear(6, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _fails_with("wrap it in DistributedDataParallel", model, optimizer)
    still = DistributedDataParallel(model, static_graph=True)
    _fails_with("static_graph", still, optimizer)
    data = make_data()
    sampler = ElasticBatchSampler(data, global_batch=4, rank=0, num_replicas=1)
    trainer = ElasticTrainer(DistributedDataParallel(model), optimizer)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    with pytest.raises(BatchMistake, match="num_replicas=2"):
        next(trainer.steps(loader))


def _fails_with(text: str, model: Any, optimizer: Any) -> None:
    with pytest.raises(BatchMistake, match=text):
        ElasticTrainer(model, optimizer)
