"""Parse a role's priority: a number, a class, or the fraction of ranks that is high.

ElasticDL and DLRover give part of a role a high priority, so that a job keeps a core of nodes when
the rest is preempted; ``0.5`` and ``high=0.5`` are their two spellings. An integer is a value, so
``1`` and ``1.0`` differ: the first is a priority just above the default, the second is all high.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from resile.job.errors import PriorityError

__all__ = ["PriorityRule", "parse_priority"]

HIGH_CLASS, LOW_CLASS = "high", "low"

_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]*\.[0-9]+|[0-9]+\.?")
_GREATEST = 1_000_000_000
"""Kubernetes reserves larger values for its own system classes."""


@dataclass(frozen=True)
class PriorityRule:
    """A parsed priority: at most one of the three is set; none means the default priority."""

    value: int | None = None
    class_name: str | None = None
    high_fraction: float | None = None


def parse_priority(written: int | float | str | None) -> PriorityRule:
    """Parse a priority; raises PriorityError that says what is valid."""
    if written is None:
        return PriorityRule()
    if isinstance(written, int):
        if abs(written) > _GREATEST:
            raise PriorityError(f"expected a priority between ±{_GREATEST}, found {written}")
        return PriorityRule(value=written)
    if isinstance(written, float):
        return _fraction(written, str(written))
    return _from_text(written.strip())


def _from_text(text: str) -> PriorityRule:
    fraction = text.removeprefix(f"{HIGH_CLASS}=")
    if _NUMBER.fullmatch(fraction):
        return _fraction(float(fraction), text)
    if "=" in text or not _CLASS.fullmatch(text):
        raise PriorityError(
            f"expected an integer, a class such as high or low, or a fraction such as 0.5 or "
            f"high=0.5, found {text!r}"
        )
    return PriorityRule(class_name=text)


def _fraction(fraction: float, text: str) -> PriorityRule:
    if not 0 <= fraction <= 1:
        raise PriorityError(f"the fraction of high ranks lies between 0 and 1, found {text}")
    return PriorityRule(high_fraction=fraction)
