"""The rate at which a peer may send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.wire.server import BURST, MESSAGES_PER_SECOND, RateLimiter


def test_a_burst_is_allowed_and_no_more() -> None:
    rate = RateLimiter(0.0)
    assert all(rate.allows(0.0) for _ in range(BURST))
    assert not rate.allows(0.0)


@given(st.floats(0, 1e6), st.floats(0.01, 1.0))
def test_an_ordinary_pace_is_allowed_for_ever(begin: float, share: float) -> None:
    rate = RateLimiter(begin)
    pause = 1 / (MESSAGES_PER_SECOND * share)
    assert all(rate.allows(begin + number * pause) for number in range(3 * BURST))


@given(st.lists(st.floats(0, 0.1), max_size=3000))
def test_no_rhythm_gets_more_than_the_burst_and_the_pace(pauses: list[float]) -> None:
    rate, now, allowed = RateLimiter(0.0), 0.0, 0
    for pause in pauses:
        now += pause
        allowed += rate.allows(now)
        assert allowed <= BURST + now * MESSAGES_PER_SECOND + 1
