"""Suggestions for mistyped commands and flags."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import takewhile

LEAST_LIKENESS = 0.6
"""difflib's default threshold for two similar words."""

LEAST_BEGINNING = 3
"""Common letters at the beginning, for names that differ only late: --nproc-per-node."""


def closest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to the given one, its beginning counting most; or None."""
    return max(
        (name for name in known if _is_like(given, name)),
        key=lambda name: (_beginning(given, name), _likeness(given, name)),
        default=None,
    )


def _is_like(given: str, name: str) -> bool:
    return _likeness(given, name) >= LEAST_LIKENESS or _beginning(given, name) >= LEAST_BEGINNING


def _likeness(given: str, name: str) -> float:
    return difflib.SequenceMatcher(None, _plain(given), _plain(name)).ratio()


def _beginning(given: str, name: str) -> int:
    pairs = zip(_plain(given), _plain(name), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-").lower()
