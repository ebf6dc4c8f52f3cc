"""Which connection goes when too many strangers have come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.strangers import Stranger, displaced


def test_the_longest_waiting_goes() -> None:
    assert displaced({"a": Stranger("h", 2.0), "b": Stranger("h", 1.0)}) == "b"


@given(st.integers(2, 50), st.floats(0, 10))
def test_who_comes_in_crowds_displaces_itself(crowd: int, since: float) -> None:
    strangers = {n: Stranger("attacker", 5.0 + n) for n in range(crowd)}
    strangers[-1] = Stranger("node", since)
    assert displaced(strangers) == 0
