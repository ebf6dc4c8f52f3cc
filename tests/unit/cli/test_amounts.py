"""Numbers in readable units."""

from __future__ import annotations

import pytest

from resile.cli.output.format import age, count, used_memory


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (192, "3m12s"),
        (3600, "1h0m"),
        (86400 * 2 + 3600 * 4 + 59, "2d4h"),
        (-5, "0s"),
    ],
)
def test_an_age_has_its_two_greatest_units(seconds: float, shown: str) -> None:
    assert age(1000.0, 1000.0 + seconds) == shown


def test_what_is_not_known_is_a_dash() -> None:
    assert (age(0.0), count(None), used_memory(""), used_memory("much")) == ("-", "-", "-", "-")


@pytest.mark.parametrize(
    ("memory", "shown"),
    [("512", "512"), ("2048", "2Ki"), ("1536Ki", "1.5Mi"), ("3072Mi", "3Gi")],
)
def test_memory_is_shown_in_its_greatest_unit(memory: str, shown: str) -> None:
    assert used_memory(memory) == shown
