"""How ranks in lockstep share an epoch: the same number of steps, every record once."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from resile.train.data.sharded_plan import plan_of, share

SIZES = st.integers(0, 400)
WORLDS = st.integers(1, 9)
BATCHES = st.integers(1, 9)


@given(SIZES, WORLDS, BATCHES)
def test_the_ranks_shares_add_up_to_what_is_left(left: int, world: int, batch: int) -> None:
    plan = plan_of(left, world=world, batch_size=batch)
    assert sum(plan.sizes()) == left
    assert sum(plan.quota(rank) or 0 for rank in range(world)) == left
    assert len(list(plan.sizes())) == plan.steps
    for size in plan.sizes():
        assert sum(share(size, rank=rank, world=world) for rank in range(world)) == size


@given(SIZES, WORLDS, BATCHES)
def test_every_rank_has_a_record_in_every_step_if_there_is_one_for_each(
    left: int, world: int, batch: int
) -> None:
    sizes = list(plan_of(left, world=world, batch_size=batch).sizes())
    largest = 2 if batch == 1 else batch
    for size in sizes:
        shares = [share(size, rank=rank, world=world) for rank in range(world)]
        assert max(shares) <= largest
        assert max(shares) - min(shares) <= 1
        assert min(shares) >= 1 or left < world
    assert all(size == world * batch for size in sizes[:-2])


def test_a_stream_has_full_steps_for_ever() -> None:
    plan = plan_of(None, world=3, batch_size=4)
    assert list(islice(plan.sizes(), 5)) == [12] * 5
    assert plan.steps is None
    assert plan.quota(1) is None
