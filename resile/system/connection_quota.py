"""The eviction rule for unauthenticated connections when there are too many of them. Pure.

A separate quota for unauthenticated connections keeps authenticated ones from being evicted, but
a quota alone would let a client that fills it lock all others out. So a new connection is always
accepted: the oldest one is closed, among those of the address with the most connections. An
attacker at one address displaces only itself.

This module is in the bottom layer: it imports no other module of Resile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

__all__ = ["PendingConnection", "connection_to_evict"]

K = TypeVar("K")


class PendingConnection(NamedTuple):
    """An unauthenticated connection."""

    address: str
    since: float


def connection_to_evict(pending: Mapping[K, PendingConnection]) -> K:
    """The connection to close; there must be at least one."""
    counts = Counter(one.address for one in pending.values())
    return min(pending, key=lambda key: (-counts[pending[key].address], pending[key].since))
