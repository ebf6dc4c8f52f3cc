"""Which connection is closed when there are too many unauthenticated ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.system.connection_quota import PendingConnection, connection_to_evict


def test_the_longest_waiting_goes() -> None:
    assert (
        connection_to_evict({"a": PendingConnection("h", 2.0), "b": PendingConnection("h", 1.0)})
        == "b"
    )


@given(st.integers(2, 50), st.floats(0, 10))
def test_who_comes_in_crowds_displaces_itself(crowd: int, since: float) -> None:
    strangers = {n: PendingConnection("attacker", 5.0 + n) for n in range(crowd)}
    strangers[-1] = PendingConnection("node", since)
    assert connection_to_evict(strangers) == 0
