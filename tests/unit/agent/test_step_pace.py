"""The step time of a worker, from reports that the agent reads late or in a batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.agent.progress import StepPace, first_step

LARGEST = 2**63 - 1


def stepped(pace: StepPace, *, steps: int, seconds: float) -> StepPace:
    """This many more steps, each of this many seconds."""
    for _ in range(steps):
        pace = pace.after(pace.step + 1, now=pace.stepped_at + seconds)
    return pace


def test_a_single_step_takes_nobody_knows_how_long() -> None:
    assert first_step(7, 100.0).step_time is None


@pytest.mark.parametrize("seconds", [0.002, 0.3, 40.0])
def test_steps_of_one_length_have_that_length(seconds: float) -> None:
    pace = stepped(first_step(7, 100.0), steps=200, seconds=seconds)
    assert pace.step_time == pytest.approx(seconds)
    assert (pace.step, pace.stepped_at) == (207, pytest.approx(100.0 + 200 * seconds))


def test_steps_that_are_read_at_once_are_measured_together() -> None:
    """The agent was busy for a second: ten reports waited for it."""
    pace = first_step(0, 0.0)
    for second in range(1, 20):
        for step in range(10):
            pace = pace.after(10 * second + step, now=float(second))
    assert pace.step_time == pytest.approx(0.1, rel=0.05)


def test_a_worker_that_becomes_slow_is_seen_soon_and_a_single_slow_step_hardly() -> None:
    steady = stepped(first_step(0, 0.0), steps=50, seconds=1.0)
    once = stepped(stepped(steady, steps=1, seconds=5.0), steps=5, seconds=1.0)
    assert once.step_time is not None
    assert once.step_time < 1.5
    slow = stepped(steady, steps=8, seconds=3.0)
    assert slow.step_time is not None
    assert slow.step_time > 2.5


def test_a_step_that_is_said_again_is_no_new_one() -> None:
    pace = first_step(7, 100.0)
    assert pace.after(7, now=130.0) == pace


def test_steps_that_go_back_are_counted_anew_at_the_pace_known() -> None:
    pace = stepped(first_step(50, 0.0), steps=5, seconds=1.0).after(10, now=60.0)
    assert (pace.step, pace.stepped_at, pace.step_time) == (10, 60.0, pytest.approx(1.0))
    assert pace.after(11, now=61.0).step_time == pytest.approx(1.0)


@given(
    st.lists(st.tuples(st.integers(0, LARGEST), st.floats(0, 1e6)), min_size=1, max_size=50),
    st.floats(0, 1e9),
)
def test_whatever_is_reported_the_times_are_numbers(
    reports: list[tuple[int, float]], now: float
) -> None:
    pace = first_step(0, now)
    for step, pause in reports:
        now += pause
        pace = pace.after(step, now=now)
        assert pace.step == step
        assert pace.stepped_at <= now
        if pace.step_time is not None:
            assert math.isfinite(pace.step_time)
            assert pace.step_time > 0
