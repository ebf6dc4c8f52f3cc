"""The elastic batch on leased data: the mean over a step's records, each of which counts once."""

from __future__ import annotations

import copy
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from resile.train.batch import ElasticTrainer
from resile.train.batch.grad_sync import NoGradSync
from resile.train.batch.loader_plan import batch_source_of, plan_steps
from resile.train.batch.trainer import GlobalBatch
from resile.train.data import ShardedDataset
from tests.local.batch.training import LENGTH, WRAPPERS, Recipe, make_data, make_model
from tests.local.batch.worlds import run_world
from tests.local.ledgers import each_sample_counts_once

ROUNDING = 1e-12


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp2"])
def test_each_step_is_the_mean_over_its_records_whatever_the_world(
    wrapper: str, tmp_path: Path
) -> None:
    """Two epochs of 53: a step of 18 and one of 1 would leave ranks without a record."""
    for world, steps in ((4, 2), (3, 3), (2, 99)):
        run_world(world, _train, wrapper, 17, steps, str(tmp_path), folder=tmp_path)
    stream = each_sample_counts_once(tmp_path / "ledger", epochs=2)
    assert [epoch.trained for epoch in stream.epochs] == [LENGTH, LENGTH]


def test_a_rank_without_a_record_fills_up_and_is_in_step(tmp_path: Path) -> None:
    """One step of 2 records on 3 ranks remains of the first epoch, followed by a whole epoch."""
    run_world(1, _train, "ddp", LENGTH - 2, 1, str(tmp_path), folder=tmp_path)
    run_world(3, _train, "ddp", LENGTH - 2, 99, str(tmp_path), folder=tmp_path)
    stream = each_sample_counts_once(tmp_path / "ledger", epochs=2)
    assert (stream.steps, stream.lost) == (4, 0)


class Log:
    """A stream of two partitions, whose first records are no longer available."""

    partitions = 2

    def read(self, partition: int, start: int, stop: int) -> list[tuple[int, int]]:
        assert start >= 50
        return [(partition, offset) for offset in range(start, stop)]


def test_a_stream_fills_up_with_a_record_that_it_still_has() -> None:
    dataset = ShardedDataset(
        Log(), shard_size=4, shuffle=False, offsets=[50, 60], rank=1, num_replicas=2
    )
    loader = dataset.loader(global_batch=9, micro_batch=4, collate_fn=list)
    plan = next(plan_steps(batch_source_of(loader), equal_passes=True))
    batches = GlobalBatch(plan, NoGradSync(), loader=loader, batches=iter(loader))
    given = []
    for batch in batches:
        batches.begin_backward()
        given.append(batch)
    assert given == [[(1, 60), (1, 61), (1, 62), (1, 63)], [(1, 60), (1, 60)]]


def _train(wrapper: str, global_batch: int, steps: int, folder: str) -> None:
    """Train some steps from where the last world stopped; compare each with the plain mean."""
    plain, data = make_model(Recipe()), make_data()
    model = WRAPPERS[wrapper](copy.deepcopy(plain))
    trainer = ElasticTrainer(model, torch.optim.SGD(model.parameters(), lr=0.0))
    dataset = ShardedDataset(data, shard_size=7, epochs=2, ledger=Path(folder, "ledger"))
    state = Path(folder, "state.json")
    if state.exists():
        dataset.load_rank_states(json.loads(state.read_text()))
    dist.barrier()
    loader = dataset.loader(global_batch=global_batch, micro_batch=4)
    left = steps
    for _ in dataset.remaining_epochs():
        for batches in islice(trainer.steps(loader), left):
            own = []
            for x, y in batches:
                trainer.backward(cross_entropy(model(x), y))
                own += [] if batches.filling else [(x, y)]
            x, y = _gathered(own)
            assert len(x) == batches.samples
            with torch.no_grad():
                expected = cross_entropy(plain(x), y).item()
            assert abs(trainer.loss() - expected) < ROUNDING
            trainer.step()
            dataset.advance()
            left -= 1
        if not left:
            break
    states = _of_all_ranks(dataset.state_dict())
    if dist.get_rank() == 0:
        state.write_text(json.dumps(states))


def _gathered(own: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = zip(*(pair for pairs in _of_all_ranks(own) for pair in pairs), strict=True)
    return torch.cat(x), torch.cat(y)


def _of_all_ranks(value: Any) -> list[Any]:
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
