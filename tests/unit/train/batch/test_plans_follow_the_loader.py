"""The plan matches the batches of the loader, from wherever an epoch is resumed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from resile.train.batch import BatchMistake
from resile.train.batch.loader_plan import batch_source_of, plan_steps
from resile.train.data import ElasticBatchSampler, ElasticSampler, Pace, ShardedDataset


def planned_and_given(loader: Any) -> tuple[list[int], list[int]]:
    ahead = plan_steps(batch_source_of(loader), equal_passes=False)
    got = [len(batch) for batch in loader]
    return [one.samples for plan in ahead for one in plan.passes if not one.filler], got


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(0, 60),
    batch=st.integers(1, 20),
    micro_batch=st.none() | st.integers(1, 6),
    world=st.integers(1, 5),
    done=st.integers(0, 5),
    ending=st.sampled_from([{}, {"drop_last": True}, {"pad": True}]),
)
def test_a_loader_with_a_batch_sampler_gives_what_was_planned(
    length: int,
    batch: int,
    micro_batch: int | None,
    world: int,
    done: int,
    ending: dict[str, bool],
) -> None:
    for rank in range(world):
        sampler = ElasticBatchSampler(
            range(length),
            global_batch=batch,
            micro_batch=micro_batch,
            rank=rank,
            num_replicas=world,
            **ending,
        )
        for _ in range(done):
            sampler.advance()
        planned, got = planned_and_given(DataLoader(range(length), batch_sampler=sampler))
        assert planned == got


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(0, 60),
    batch=st.integers(1, 8),
    world=st.integers(1, 5),
    done=st.integers(0, 5),
)
def test_a_loader_with_a_sampler_gives_what_was_planned(
    length: int, batch: int, world: int, done: int
) -> None:
    for rank in range(world):
        sampler = ElasticSampler(range(length), batch_size=batch, rank=rank, num_replicas=world)
        for _ in range(done):
            sampler.advance()
        loader = DataLoader(range(length), batch_size=batch, sampler=sampler)
        planned, got = planned_and_given(loader)
        assert planned == got


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(0, 60),
    world=st.integers(1, 5),
    more=st.integers(0, 12),
    micro_batch=st.none() | st.integers(1, 6),
    done=st.integers(0, 5),
    left=st.integers(0, 3),
)
def test_a_loader_of_leased_data_gives_what_was_planned(
    length: int, world: int, more: int, micro_batch: int | None, done: int, left: int
) -> None:
    """Also when a loop was left after some steps, the last of which were not counted."""
    for rank in range(world):
        dataset = ShardedDataset(range(length), shard_size=7, rank=rank, num_replicas=world)
        loader = dataset.loader(global_batch=world + more, micro_batch=micro_batch)
        for _ in zip(
            range(done + left), batch_source_of(loader).sizes_ahead(), loader, strict=False
        ):
            pass
        for _ in range(done):
            dataset.advance()
        ahead = list(plan_steps(batch_source_of(loader), equal_passes=False))
        got = [len(batch) for batch in loader]
        wanted = [
            size
            for plan in ahead
            for size in ([1] if plan.stand_in else [one.samples for one in plan.passes])
        ]
        assert wanted == got


def test_ranks_that_run_out_at_different_times_have_no_global_batch() -> None:
    dataset = ShardedDataset(range(8), rank=0, num_replicas=1)
    with pytest.raises(BatchMistake, match=r"pace=Pace\.APART"):
        batch_source_of(dataset.loader(2, pace=Pace.APART))


def test_a_loader_without_an_elastic_sampler_is_refused() -> None:
    with pytest.raises(BatchMistake, match="ElasticBatchSampler"):
        batch_source_of(DataLoader(range(8), batch_size=2))


def test_two_batch_sizes_that_do_not_agree_are_refused() -> None:
    sampler = ElasticSampler(range(8), batch_size=2, rank=0, num_replicas=1)
    with pytest.raises(BatchMistake, match="batch_size=4"):
        batch_source_of(DataLoader(range(8), batch_size=4, sampler=sampler))


def test_a_loader_that_drops_on_its_own_is_refused() -> None:
    sampler = ElasticSampler(range(8), batch_size=2, rank=0, num_replicas=1)
    with pytest.raises(BatchMistake, match="drop_last"):
        batch_source_of(DataLoader(range(8), batch_size=2, sampler=sampler, drop_last=True))
