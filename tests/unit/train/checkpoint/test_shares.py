"""Tensors are divided among a node's workers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from resile.train.checkpoint.save.capture import SMALL, share_out

sizes = st.dictionaries(st.text(), st.integers(0, 64 * SMALL), max_size=60)
workers = st.integers(1, 9)


@given(sizes, workers)
def test_every_tensor_has_exactly_one_owner(sizes: dict[str, int], workers: int) -> None:
    owners = share_out(sizes, workers)
    assert owners.keys() == sizes.keys()
    assert all(0 <= owner < workers for owner in owners.values())


@given(sizes, workers, st.randoms())
def test_the_order_of_names_does_not_matter(
    sizes: dict[str, int], workers: int, chance: random.Random
) -> None:
    names = list(sizes)
    chance.shuffle(names)
    assert share_out({name: sizes[name] for name in names}, workers) == share_out(sizes, workers)


@given(sizes, workers)
def test_small_tensors_are_the_first_workers(sizes: dict[str, int], workers: int) -> None:
    owners = share_out(sizes, workers)
    assert all(owners[name] == 0 for name, size in sizes.items() if size < SMALL)


@given(sizes, workers)
def test_no_worker_has_more_than_the_least_loaded_and_one_tensor(
    sizes: dict[str, int], workers: int
) -> None:
    owners = share_out(sizes, workers)
    loads = [sum(sizes[n] for n, owner in owners.items() if owner == w) for w in range(workers)]
    small = sum(size for size in sizes.values() if size < SMALL)
    largest = max(sizes.values(), default=0)
    assert max(loads) <= max(min(loads) + largest, small)
