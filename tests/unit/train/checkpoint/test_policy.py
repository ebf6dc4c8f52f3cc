"""The interval between snapshots."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.train.checkpoint.options import Auto, Costs, choose_interval

seconds = st.floats(1e-4, 1e4)


def measured(*, stall: float, step: float, failures: int = 0, watched: float = 0.0) -> Costs:
    return Costs(stall=stall, step=step, failures=failures, seconds=watched)


def test_until_something_is_measured_the_first_interval_holds() -> None:
    choice = choose_interval(Auto(first=7), Costs())
    assert choice.steps == 7
    assert "until a snapshot has been measured" in choice.reason


def test_youngs_rule_decides_when_the_budget_allows() -> None:
    choice = choose_interval(Auto(budget=0.5, mtbf=800), measured(stall=0.25, step=0.1))
    assert choice.steps == round((math.sqrt(2 * 0.25 * 800) - 0.25) / 0.1)
    assert "a failure every 800 s" in choice.reason


def test_the_budget_bounds_the_stall() -> None:
    choice = choose_interval(Auto(budget=0.01, mtbf=10), measured(stall=1, step=1))
    assert choice.steps == 100
    assert "at most 1.00% of the time" in choice.reason


@given(stall=seconds, step=seconds, mtbf=seconds, budget=st.floats(0.001, 0.5))
def test_never_more_than_the_budget_nor_less_than_a_step(
    stall: float, step: float, mtbf: float, budget: float
) -> None:
    auto = Auto(budget=budget, mtbf=mtbf, most_steps=10**12)
    steps = choose_interval(auto, measured(stall=stall, step=step)).steps
    assert steps >= 1
    assert stall <= budget * (steps + 0.5) * step * 1.0001


@given(stall=seconds, step=seconds, failures=st.integers(0, 100))
def test_more_failures_never_mean_fewer_snapshots(stall: float, step: float, failures: int) -> None:
    few = choose_interval(Auto(), measured(stall=stall, step=step, failures=failures, watched=9e3))
    many = measured(stall=stall, step=step, failures=failures + 1, watched=9e3)
    assert choose_interval(Auto(), many).steps <= few.steps


def test_real_failures_replace_the_assumption() -> None:
    costs = Costs(failures=999, seconds=10_000)
    assert costs.time_between_failures(assumed=3600) == pytest.approx(13.6)


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"budget": 1}, {"mtbf": 0}, {"first": 0}])
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Auto(**wrong)  # type: ignore[arg-type]
