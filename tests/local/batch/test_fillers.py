"""Ranks without samples take part in the all-reduce, and their filler samples do not count."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from resile.train.batch import ElasticTrainer
from resile.train.data import ElasticBatchSampler
from tests.local.batch.training import LENGTH, Recipe, make_data, make_model
from tests.local.batch.worlds import run_world


def test_an_epoch_has_every_sample_once_beside_its_fillers(tmp_path: Path) -> None:
    run_world(4, _count_an_epoch, folder=tmp_path)


def _count_an_epoch() -> None:
    model, data = DistributedDataParallel(make_model(Recipe())), make_data()
    trainer = ElasticTrainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader = DataLoader(data, batch_sampler=ElasticBatchSampler(data, global_batch=17))
    counted = torch.zeros(2, dtype=torch.int64)
    for batches in trainer.steps(loader):
        for x, y in batches:
            trainer.backward(cross_entropy(model(x), y))
            counted[int(batches.filling)] += len(x)
        trainer.step()
    dist.all_reduce(counted)
    own, filled = counted.tolist()
    assert own == LENGTH
    assert filled == 2 * 2  # two ranks had no share of the last batch's two samples


def test_more_ranks_than_samples_train_too(tmp_path: Path) -> None:
    run_world(3, _train_in_twos, folder=tmp_path)


def _train_in_twos() -> None:
    model, data = DistributedDataParallel(make_model(Recipe())), make_data()
    trainer = ElasticTrainer(model, torch.optim.SGD(model.parameters(), lr=0.0))
    sampler = ElasticBatchSampler(data, global_batch=2, shuffle=False)
    for number, batches in enumerate(trainer.steps(DataLoader(data, batch_sampler=sampler))):
        for x, y in batches:
            trainer.backward(cross_entropy(model(x), y))
        x, y = data[2 * number : 2 * number + 2]
        with torch.no_grad():
            expected = cross_entropy(model.module(x), y).item()
        assert abs(trainer.loss() - expected) < 1e-12
        trainer.step()
