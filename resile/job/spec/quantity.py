"""Amounts of cpu, memory and devices, written as Kubernetes writes them.

``500m`` is half a core, ``4Gi`` is 4 x 1024^3 bytes, ``1G`` is 10^9 bytes, a bare number is cores
or bytes. An amount is kept as an exact fraction, so ``0.1`` and ``100m`` are equal and doubling
never drifts. Amounts cannot be negative and cannot exceed 2^63 - 1, which is also Kubernetes'
bound; without it a text such as ``1e999999999`` would exhaust the memory of its reader.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from resile.job.errors import QuantityError

__all__ = ["Amount", "Quantity", "parse_memory", "parse_quantity"]

Amount: TypeAlias = str | int | float
"""An amount as a person may write it in a manifest."""

_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_SCALE = {**_DECIMAL, **{suffix: Fraction(scale) for suffix, scale in _BINARY.items()}}
_LARGEST = 2**63 - 1
_LONGEST = 40
_SHAPE = re.compile(
    r"(?P<number>[0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<rest>[A-Za-z]*|[eE][+-]?[0-9]{1,3})"
)
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_MISSPELT = {
    **{unit.upper(): unit for unit in (*_BINARY, "k", "G", "T", "P")},
    **{f"{unit}B".upper(): unit for unit in (*_BINARY, "k", "M", "G", "T", "P")},
}
_SMALLEST_BINARY = 1024**2
"""Below this a number is more likely a count than bytes, and is written without a unit."""


@dataclass(frozen=True, order=True)
class Quantity:
    """An exact, non-negative amount: cores for cpu, bytes for memory, pieces for devices."""

    amount: Fraction

    @classmethod
    def zero(cls) -> Quantity:
        """The amount 0."""
        return cls(Fraction(0))

    @property
    def cores(self) -> float:
        """The amount as a number of cores."""
        return float(self.amount)

    @property
    def bytes(self) -> int:
        """The amount as whole bytes, rounded up as Kubernetes does."""
        return math.ceil(self.amount)

    def scaled(self, factor: Fraction | float) -> Quantity:
        """This amount times ``factor``, rounded up to a whole number."""
        return Quantity(Fraction(math.ceil(self.amount * Fraction(factor))))

    def __str__(self) -> str:
        """A short text that parses back to the same amount."""
        if self.amount.denominator == 1:
            return _whole(self.amount.numerator)
        for suffix in ("m", "u", "n"):
            count = self.amount / _DECIMAL[suffix]
            if count.denominator == 1:
                return f"{count}{suffix}"
        return f"{math.ceil(self.amount / _DECIMAL['n'])}n"


def parse_quantity(value: Amount) -> Quantity:
    """Parse one amount; raises QuantityError that says what is valid."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"expected an amount such as 2, 500m or 4Gi, found {value!r}")
    text = value.strip() if isinstance(value, str) else repr(value)
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(_refusal(text))
    amount = Fraction(match["number"]) * _scale(match["rest"], text)
    if amount > _LARGEST:
        raise QuantityError(f"{text} is too large: the largest amount is {_LARGEST}")
    return Quantity(amount)


def parse_memory(value: Amount) -> Quantity:
    """Parse an amount of memory; also refuses ``100m``, which would be a tenth of a byte."""
    quantity = parse_quantity(value)
    if quantity.amount.denominator != 1 and quantity.amount < 1024:
        text = str(value).strip()
        hint = f"; did you mean {text[:-1]}Mi?" if text.endswith("m") else ""
        raise QuantityError(f"{text} is a fraction of a byte{hint}")
    return quantity


def _scale(rest: str, text: str) -> Fraction:
    if rest in _SCALE:
        return _SCALE[rest]
    if _EXPONENT.fullmatch(rest):
        return Fraction(10) ** int(rest[1:])
    raise QuantityError(_refusal(text))


def _refusal(text: str) -> str:
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if text.startswith("-"):
        return f"{shown} is negative: an amount is 0 or more"
    match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]+)", text)
    if match and match[2].upper() in _MISSPELT:
        return (
            f"{shown!r} has an unknown unit; did you mean {match[1]}{_MISSPELT[match[2].upper()]}?"
        )
    return (
        f"{shown!r} is not an amount; write a number with an optional unit "
        "(m for thousandths; k, M, G, T or Ki, Mi, Gi, Ti), such as 2, 500m or 4Gi"
    )


def _whole(count: int) -> str:
    if count >= _SMALLEST_BINARY:
        for suffix, scale in reversed(_BINARY.items()):
            if count % scale == 0:
                return f"{count // scale}{suffix}"
    return str(count)
