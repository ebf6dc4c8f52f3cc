"""Who has to go when too many connections have not proven yet that they belong to the job. Pure.

A quota for strangers keeps those who have proven it from being displaced, but a quota alone would
let whoever fills it keep everybody else out. So a newcomer always gets a place: the connection that
has waited longest goes, among those of the address that has the most. An attacker at one address
displaces itself.

This module lies below all others, imports none of them, and may be imported by each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

__all__ = ["Stranger", "displaced"]

K = TypeVar("K")


class Stranger(NamedTuple):
    """A connection that has not proven anything."""

    address: str
    since: float


def displaced(strangers: Mapping[K, Stranger]) -> K:
    """The connection that goes; there is at least one."""
    counts = Counter(one.address for one in strangers.values())
    return min(strangers, key=lambda key: (-counts[strangers[key].address], strangers[key].since))
