"""Which connections are closed when there are many unauthenticated clients."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from resile.wire.auth_middleware import SILENT_TIMEOUT, connections_to_close

sinces = st.dictionaries(st.integers(), st.floats(0, 100), max_size=30)


@given(silent_since=sinces, most=st.integers(0, 30))
def test_who_stays_is_few_enough_and_came_last(silent_since: dict[Any, float], most: int) -> None:
    now = 100.0
    gone = set(connections_to_close(silent_since, now=now, most=most))
    stay = set(silent_since) - gone
    assert len(stay) <= most
    assert all(now - silent_since[one] <= SILENT_TIMEOUT for one in stay)
    if gone and stay:
        assert max(silent_since[one] for one in gone) <= min(silent_since[one] for one in stay)


@given(silent_since=sinces)
def test_nobody_goes_without_need(silent_since: dict[Any, float]) -> None:
    gone = connections_to_close(silent_since, now=100.0, most=30)
    assert all(100.0 - silent_since[one] > SILENT_TIMEOUT for one in gone)
