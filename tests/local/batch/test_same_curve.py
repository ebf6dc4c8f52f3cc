"""A run that shrinks and grows has the curve and the weights of an undisturbed one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.batch.training import THERE_AND_BACK, Recipe, elastic, undisturbed

STEPS = sum(steps for _, steps in THERE_AND_BACK)

ROUNDING = 1e-12
"""The rounding error of float64 over 20 steps, since sums are taken in another order."""

VISIBLE = 1e-3
"""A difference that is larger than any rounding error."""


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_four_three_two_four_ranks_train_like_one(optimizer: str, tmp_path: Path) -> None:
    recipe = Recipe(optimizer=optimizer)
    run = elastic(recipe, THERE_AND_BACK, folder=tmp_path)
    assert run.distance(undisturbed(recipe, STEPS)) < ROUNDING


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_check_finds_gradients_that_are_not_weighted(optimizer: str, tmp_path: Path) -> None:
    recipe = Recipe(optimizer=optimizer, way="unweighted")
    run = elastic(recipe, THERE_AND_BACK, folder=tmp_path)
    assert run.distance(undisturbed(recipe, STEPS)) > VISIBLE


def test_losses_that_are_sums_train_the_same(tmp_path: Path) -> None:
    recipe = Recipe(way="sums")
    run = elastic(recipe, [(3, 5), (4, 4)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 9)) < ROUNDING


def test_a_mean_over_counts_is_one_over_those_of_all_ranks(tmp_path: Path) -> None:
    recipe = Recipe(way="counts", optimizer="adam")
    run = elastic(recipe, [(3, 5), (4, 4)], folder=tmp_path)
    assert run.distance(undisturbed(recipe, 9, counts=True)) < ROUNDING


def test_clipping_sees_the_whole_gradient(tmp_path: Path) -> None:
    recipe = Recipe(max_norm=0.05)
    reference = undisturbed(recipe, 9)
    assert reference.distance(undisturbed(replace(recipe, max_norm=None), 9)) > VISIBLE
    run = elastic(recipe, [(3, 5), (4, 4)], folder=tmp_path)
    assert run.distance(reference) < ROUNDING
