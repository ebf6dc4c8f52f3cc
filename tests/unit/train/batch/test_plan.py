"""The ranks' plans for a global batch add up to its mean."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.train.batch.loader_plan import StepPlan, plan_step
from resile.train.data.samplers.batching import shares_of


@st.composite
def steps(draw: st.DrawFn) -> list[StepPlan]:
    """The plans of all ranks for one global batch."""
    samples, world = draw(st.integers(1, 300)), draw(st.integers(1, 24))
    micro_batch = draw(st.none() | st.integers(1, 40))
    equal = draw(st.booleans())
    return [
        plan_step(samples, world, rank=rank, micro_batch=micro_batch, equal_passes=equal)
        for rank in range(world)
    ]


def weighted_mean(losses: list[float], plans: list[StepPlan]) -> float:
    """The result of ranks that average what each has accumulated."""
    left = iter(losses)
    total = 0.0
    for plan in plans:
        for one in plan.passes:
            micro_batch = list(islice(left, one.samples))
            mean = sum(micro_batch) / len(micro_batch) if micro_batch else 1e6
            total += mean * one.samples * plan.weight_of_sum()
    assert not list(left)
    return total / len(plans)


@given(steps(), st.randoms(use_true_random=False))
def test_the_mean_over_ranks_of_weighted_means_is_the_mean_over_samples(
    plans: list[StepPlan], numbers: Random
) -> None:
    losses = [numbers.uniform(1, 2) for _ in range(plans[0].samples)]
    mean = sum(losses) / len(losses)
    assert weighted_mean(losses, plans) == pytest.approx(mean, rel=1e-12)


@given(steps())
def test_every_sample_is_in_one_pass(plans: list[StepPlan]) -> None:
    own = [sum(one.samples for one in plan.passes) for plan in plans]
    assert own == shares_of(plans[0].samples, len(plans))


@given(steps())
def test_every_rank_exchanges_once_and_at_the_end(plans: list[StepPlan]) -> None:
    for plan in plans:
        assert [one.last for one in plan.passes] == [False] * (len(plan.passes) - 1) + [True]


@given(steps())
def test_fillers_come_after_all_samples(plans: list[StepPlan]) -> None:
    for plan in plans:
        fillers = [one.filler for one in plan.passes]
        assert fillers == sorted(fillers)


@given(
    samples=st.integers(1, 300),
    world=st.integers(1, 24),
    micro_batch=st.none() | st.integers(1, 40),
)
def test_equal_passes_are_as_many_as_the_largest_share_needs(
    samples: int, world: int, micro_batch: int | None
) -> None:
    def passes(*, equal: bool) -> list[int]:
        return [
            len(
                plan_step(
                    samples, world, rank=rank, micro_batch=micro_batch, equal_passes=equal
                ).passes
            )
            for rank in range(world)
        ]

    assert passes(equal=True) == [max(passes(equal=False))] * world
