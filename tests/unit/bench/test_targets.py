"""Targets and their verdicts."""

import math

import pytest

from bench.results import Outcome, Series
from bench.scale.sweep import relative_growth
from bench.targets import AtMost, ShareOfBest, Shown, TimesOf


def series(family: str, *values: float | None) -> Series:
    outcomes = [Outcome(value, "" if value is not None else "no step in 60 s") for value in values]
    return Series(family, family, family.title(), outcomes)


def test_a_missing_value_is_worse_than_any_number() -> None:
    assert series("x", 1.0, 2.0, None).median == 2.0
    assert math.isinf(series("x", 1.0, None, None).median)
    assert series("x", None, None).failures == {"no step in 60 s": 2}


def test_a_share_is_taken_of_the_best_other_launcher() -> None:
    target = ShareOfBest(0.1, "a tenth")
    all_of_them = [series("torchrun", 3.0), series("dlrover", 2.0), series("resile", 0.19)]
    met, text = target.judge(all_of_them)
    assert met
    assert "Dlrover" in text
    assert target.judge([series("dlrover", 2.0), series("resile", 0.21)]).met is False


def test_a_launcher_that_mostly_failed_is_no_yardstick() -> None:
    target = ShareOfBest(0.1, "a tenth")
    failed = series("torchrun", 0.1, None, None)
    assert target.judge([failed, series("dlrover", 2.0), series("resile", 0.2)]).met
    assert target.judge([failed, series("resile", 0.2)]).met is None


def test_a_bound_is_kept_or_missed() -> None:
    assert AtMost(1.0, "under 1 s").judge([series("resile", 0.5)]).met
    assert AtMost(1.0, "under 1 s").judge([series("resile", 1.5)]).met is False


def test_our_own_failure_is_a_miss_and_our_absence_is_not() -> None:
    target = AtMost(1.0, "under 1 s")
    assert target.judge([series("resile", None, None, 0.1)]).met is False
    assert target.judge([series("torchrun", 0.1)]).met is None


def test_what_is_only_shown_is_not_judged() -> None:
    assert Shown().judge([series("resile", None)]) == (None, "")


def test_growth_is_one_for_n_log_n_and_more_for_squares() -> None:
    sizes = (250, 1000, 4000)
    assert relative_growth({n: 3 * n * math.log(n) for n in sizes}) == pytest.approx(1.0)
    assert relative_growth({n: float(n) for n in sizes}) < 1
    assert relative_growth({n: float(n * n) for n in sizes}) > 1


def test_a_figure_is_held_against_each_of_the_named_others() -> None:
    target = TimesOf({"copy": 1.3, "dlrover": 1.0}, "near a copy, no more than DLRover's")
    others = [series("copy", 1.0), series("dlrover", 1.1), series("torch-save", 0.1)]
    assert target.judge([*others, series("resile", 1.05)]).met
    met, text = target.judge([*others, series("resile", 1.2)])
    assert met is False
    assert "1.20 times Copy's 1 (at most 1.3)" in text
    assert target.judge([series("copy", None), series("resile", 1.0)]).met is None
