"""The order of an epoch is a fair permutation, the same everywhere and always."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.train.data.samplers.order import SHORT, EpochOrder


def whole(order: EpochOrder) -> list[int]:
    indices: list[int] = order.at(torch.arange(order.length)).tolist()
    return indices


@given(st.integers(1, 3 * SHORT), st.integers(-(2**63), 2**63), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_it_is_a_permutation(length: int, seed: int, epoch: int) -> None:
    assert sorted(whole(EpochOrder(length, seed, epoch, True))) == list(range(length))


@given(st.integers(SHORT + 1, 10**12), st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
@settings(deadline=None)
def test_any_part_of_it_can_be_asked_for(length: int, places: list[int]) -> None:
    order = EpochOrder(length, 0, 0, True)
    positions = torch.tensor([place % length for place in places])
    together = order.at(positions)
    assert ((together >= 0) & (together < length)).all()
    for position, index in zip(positions, together, strict=True):
        assert order.at(position[None]) == index


def test_it_is_the_same_in_every_version() -> None:
    """A job that is resumed under another version of anything relies on exactly these numbers."""
    assert whole(EpochOrder(10, 7, 2, True)) == SMALL
    assert EpochOrder(10**7, 7, 2, True).at(torch.arange(6)).tolist() == LARGE


SMALL = [1, 2, 8, 4, 0, 3, 7, 5, 6, 9]
LARGE = [623413, 8431021, 3520960, 8467615, 113473, 4959271]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(whole(EpochOrder(5000, seed, epoch, True))) for seed in (0, 1) for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_without_a_shuffle_it_is_the_order_of_the_data() -> None:
    assert whole(EpochOrder(7, 3, 1, False)) == list(range(7))


@pytest.mark.parametrize("length", [1000, 5000])
def test_every_index_comes_everywhere_equally_often(length: int) -> None:
    """Chi-squared over a 10 by 10 table of place against index: 81 degrees of freedom, so 130 is
    passed by chance less than once in two thousand; the seeds are fixed."""
    table = torch.zeros(100)
    places = torch.arange(length)
    for epoch in range(200):
        indices = EpochOrder(length, 1, epoch, True).at(places)
        table.index_add_(0, places * 10 // length * 10 + indices * 10 // length, torch.ones(length))
    expected = 200 * length / 100
    assert float(((table - expected) ** 2 / expected).sum()) < 130


@pytest.mark.parametrize("length", [1000, 5000])
def test_neighbours_in_the_data_do_not_stay_neighbours(length: int) -> None:
    indices = EpochOrder(length, 1, 0, True).at(torch.arange(length))
    distance = (indices[1:] - indices[:-1]).abs().double().mean() / length
    assert abs(float(distance) - 1 / 3) < 0.03
