"""Amounts as Kubernetes writes them."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from resile.job.errors import QuantityError
from resile.job.spec.quantity import Quantity, parse_memory, parse_quantity


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (2, 2),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("4Gi", 4 * 1024**3),
        ("1.5Gi", 3 * 1024**3 // 2),
        ("512Mi", 512 * 1024**2),
        ("1G", 10**9),
        ("1k", 1000),
        ("1E", 10**18),
        ("1Ei", 1024**6),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(12, 10)),
        ("100n", Fraction(1, 10**7)),
        (".5", Fraction(1, 2)),
        (" 2 ", 2),
        (1024, 1024),
        ("0", 0),
    ],
)
def test_an_amount_is_read_exactly(written: str | int | float, amount: int | Fraction) -> None:
    assert parse_quantity(written).amount == amount


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("4GB", "did you mean 4G?"),
        ("4GiB", "did you mean 4Gi?"),
        ("4gi", "did you mean 4Gi?"),
        ("4 Gi", "did you mean 4Gi?"),
        ("512K", "did you mean 512k?"),
        ("-1", "0 or more"),
        (-1, "0 or more"),
        ("lots", "such as 2, 500m or 4Gi"),
        ("", "such as 2, 500m or 4Gi"),
        ("1e9999", "not an amount"),
        ("1e999", "too large"),
        ("9" * 100, "not an amount"),
        ("9Ei", "too large"),
        (float("nan"), "not an amount"),
        (float("inf"), "not an amount"),
        (True, "found True"),
    ],
)
def test_a_bad_amount_is_refused_with_what_would_be_right(
    written: str | int | float, hint: str
) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(written)
    assert hint in str(caught.value)


def test_memory_in_thousandths_of_a_byte_is_a_mistake() -> None:
    with pytest.raises(QuantityError, match="did you mean 100Mi"):
        parse_memory("100m")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("4096Mi", "4Gi"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (1024, "1024"),
        ("1G", "1000000000"),
        ("1.5Gi", "1536Mi"),
        ("0.0001", "100u"),
        ("0", "0"),
    ],
)
def test_an_amount_is_written_in_its_canonical_form(written: str | int, canonical: str) -> None:
    assert str(parse_quantity(written)) == canonical


def test_amounts_compare_by_what_they_are_worth() -> None:
    assert parse_quantity("1Gi") > parse_quantity("1G") > parse_quantity("999M")
    assert parse_quantity("0.1") == parse_quantity("100m")


def test_bytes_and_cores_are_at_hand() -> None:
    assert parse_quantity("1Ki").bytes == 1024
    assert parse_quantity("1500m").cores == 1.5
    assert parse_quantity("0.5").bytes == 1


@given(st.fractions(min_value=0, max_value=2**62).map(lambda f: Fraction(round(f * 10**9), 10**9)))
def test_every_amount_survives_being_written_and_read(amount: Fraction) -> None:
    quantity = Quantity(amount)
    assert parse_quantity(str(quantity)) == quantity


@given(st.text(max_size=20) | st.floats() | st.integers())
def test_anything_is_either_read_or_refused_in_words(written: str | float | int) -> None:
    try:
        refusal = ""
        assert parse_quantity(written).amount >= 0
    except QuantityError as error:
        refusal = str(error)
    assert len(refusal) < 300
