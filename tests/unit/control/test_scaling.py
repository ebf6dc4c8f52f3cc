"""The size of a role, and its ranks."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from resile.control.sizing import RanksByState, feasible_size, new_ranks, surplus_ranks
from resile.job.spec.role import Replicas, RoleSpec


def elastic(least: int, most: int, unit: int = 1, wanted: int | None = None) -> RoleSpec:
    return RoleSpec(replicas=Replicas(min=least, max=most, wanted=wanted), node_unit=unit)


@pytest.mark.parametrize(
    ("role", "asked", "size", "why"),
    [
        (elastic(1, 4), None, 4, ""),
        (elastic(1, 4, wanted=2), None, 2, ""),
        (elastic(1, 4), 3, 3, ""),
        (elastic(1, 4), 9, 4, "9 is more than max (4)"),
        (elastic(2, 4), 0, 2, "0 is less than min (2)"),
        (elastic(2, 4), -5, 2, "-5 is less than min (2)"),
        (elastic(1, 8, 2), 5, 4, "5 is not a multiple of nodeUnit (2)"),
        (elastic(1, 5, 2), None, 4, ""),
        (elastic(1, 5, 2), 1, 2, "1 is less than min (2)"),
        (RoleSpec(replicas=2), 3, 2, "3 is more than max (2)"),
        (elastic(0, 4), 0, 0, ""),
    ],
)
def test_a_size_is_brought_within_bounds_and_says_why(
    role: RoleSpec, asked: int | None, size: int, why: str
) -> None:
    settled = feasible_size(role, asked)
    assert (settled.size, settled.why) == (size, why)


def test_scaling_up_takes_the_lowest_free_ranks() -> None:
    ranks = RanksByState(at_work=[0, 2], given_up=[1])
    assert new_ranks(elastic(1, 8), ranks, wanted=5) == [3, 4]


def test_scaling_down_removes_the_highest_ranks_first() -> None:
    assert surplus_ranks(RanksByState(at_work=[0, 1, 2, 5]), 2) == [5, 2]


def test_completed_ranks_are_not_filled_again() -> None:
    assert new_ranks(elastic(1, 4), RanksByState(at_work=[1], done=[0, 2, 3]), wanted=4) == []


def test_a_rank_that_was_given_up_lowers_the_size() -> None:
    assert new_ranks(elastic(1, 4), RanksByState(at_work=[0, 1, 2], given_up=[3]), wanted=4) == []


def test_but_not_below_min_while_max_leaves_room() -> None:
    assert new_ranks(elastic(4, 6), RanksByState(at_work=[0, 1, 2], given_up=[3]), wanted=4) == [4]


def test_and_never_beyond_max() -> None:
    assert new_ranks(elastic(4, 4), RanksByState(at_work=[0, 1, 2], given_up=[3]), wanted=4) == []


small = st.integers(0, 6)


@given(least=small, extra=small, unit=st.integers(1, 3), asked=st.none() | st.integers(-3, 20))
def test_a_settled_size_always_respects_min_max_and_unit(
    least: int, extra: int, unit: int, asked: int | None
) -> None:
    role = elastic(least * unit, (least + extra) * unit, unit)
    size = feasible_size(role, asked).size
    assert role.size.min <= size <= role.size.max
    assert size % unit == 0


@given(
    placed=st.dictionaries(st.integers(0, 12), st.sampled_from(["work", "done", "over"])),
    least=small,
    extra=small,
    wanted=small,
)
def test_nodes_at_work_never_exceed_the_wanted_size(
    placed: dict[int, str], least: int, extra: int, wanted: int
) -> None:
    role = elastic(least, least + extra)
    wanted = feasible_size(role, wanted).size
    by = {kind: [rank for rank, k in placed.items() if k == kind] for kind in placed.values()}
    ranks = RanksByState(
        at_work=by.get("work", []), done=by.get("done", []), given_up=by.get("over", [])
    )
    gone, fresh = surplus_ranks(ranks, wanted), new_ranks(role, ranks, wanted=wanted)
    assert len(ranks.at_work) - len(gone) + len(fresh) <= max(wanted, 0)
    assert not set(fresh) & set(placed)
    assert not (gone and fresh)
