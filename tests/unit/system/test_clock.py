"""A clock that excludes the time in which its process was stopped."""

from __future__ import annotations

from resile.system.clock import LATENESS, PULSE, RunningClock


class Real:
    """A clock that a test sets."""

    time = 100.0

    def __call__(self) -> float:
        return self.time


def test_it_goes_as_real_time_does_while_it_is_read() -> None:
    real = Real()
    clock = RunningClock(real)
    for _ in range(100):
        real.time += PULSE
        clock.now()
    assert clock.now() == real.time
    assert clock.paused == 0


def test_a_pause_does_not_count() -> None:
    real = Real()
    clock = RunningClock(real)
    real.time += 3600
    assert clock.now() == 100 + PULSE
    real.time += 1
    assert clock.now() == 101 + PULSE


def test_being_a_little_late_is_no_pause() -> None:
    real = Real()
    clock = RunningClock(real)
    real.time += PULSE + LATENESS
    assert clock.now() == real.time
