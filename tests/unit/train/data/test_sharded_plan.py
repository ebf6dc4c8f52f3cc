"""The division of an epoch among ranks in lockstep: equal numbers of steps, every record once."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from resile.train.data.sharded.plan import plan_of, share

SIZES = st.integers(0, 400)
WORLDS = st.integers(1, 9)
MORE = st.integers(0, 60)
"""By how many a full step has more records than there are ranks."""


@given(SIZES, WORLDS, MORE)
def test_the_ranks_shares_add_up_to_what_is_left(left: int, world: int, more: int) -> None:
    plan = plan_of(left, world=world, full=world + more)
    assert sum(plan.sizes()) == left
    assert sum(plan.quota(rank) or 0 for rank in range(world)) == left
    assert len(list(plan.sizes())) == plan.steps
    for size in plan.sizes():
        assert sum(share(size, rank=rank, world=world) for rank in range(world)) == size


@given(SIZES, WORLDS, MORE)
def test_every_rank_has_a_record_in_every_step_if_there_is_one_for_each(
    left: int, world: int, more: int
) -> None:
    full = world + more
    sizes = list(plan_of(left, world=world, full=full).sizes())
    largest = full if full >= 2 * world else full + world - 1
    for size in sizes:
        shares = [share(size, rank=rank, world=world) for rank in range(world)]
        assert size <= largest
        assert max(shares) - min(shares) <= 1
        assert min(shares) >= 1 or left < world
    assert all(size == full for size in sizes[:-2])


def test_a_stream_has_full_steps_for_ever() -> None:
    plan = plan_of(None, world=3, full=12)
    assert list(islice(plan.sizes(), 5)) == [12] * 5
    assert plan.steps is None
    assert plan.quota(1) is None
