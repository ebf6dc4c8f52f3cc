"""The valid values of a field."""

from __future__ import annotations

import math
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.wire.bounds import Age, Host, Line, Name, Number, Port, WorkerCount


def is_accepted(value: object, kind: object) -> bool:
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", ["a", "node-1", "gpu 7, rack 3", "größer", "节点", "x" * 255])
def test_ordinary_names_are_accepted(name: str) -> None:
    assert is_accepted(name, Name)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\n", "\na", "a\r", "a\x1b[2J", "a\x7f", "a\x85"])
def test_names_that_would_break_a_line_are_not(name: str) -> None:
    assert not is_accepted(name, Name)


@given(st.text(max_size=50))
def test_an_accepted_line_stays_one_line(text: str) -> None:
    if is_accepted(text, Line):
        assert len(text.splitlines()) <= 1
        assert not any(unicodedata.category(c) == "Cc" for c in text)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0", "node-1.cluster.local"])
def test_hosts_are_accepted(host: str) -> None:
    assert is_accepted(host, Host)


@pytest.mark.parametrize("host", ["", "a b", "a\0", "a\n", " a", "x" * 300])
def test_what_no_environment_can_hold_is_no_host(host: str) -> None:
    assert not is_accepted(host, Host)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-1, Number),
        (2**64 - 1, Number),
        (True, Number),
        (0, WorkerCount),
        (5000, WorkerCount),
        (0, Port),
        (65536, Port),
        (-0.1, Age),
        (math.nan, Age),
        (math.inf, Age),
    ],
)
def test_numbers_beyond_their_bounds_are_refused(value: float, kind: object) -> None:
    assert not is_accepted(value, kind)
