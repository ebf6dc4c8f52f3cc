"""Compute the current usage of nodes: cpu time since the start becomes cores in use."""

from __future__ import annotations

from typing import Protocol

from resile.control.observed import ObservedNode
from resile.platform.local.usage import NodeUsage
from resile.wire.messages import Usage

__all__ = ["UsageMeter"]


class Measured(Protocol):
    """The platform that is measured."""

    def observe(self) -> tuple[ObservedNode, ...]:
        """Return all nodes."""

    def usage(self) -> dict[int, NodeUsage]:
        """Return what the running nodes have used so far, by node id."""


class UsageMeter:
    """Computes usage from successive readings."""

    def __init__(self, platform: Measured) -> None:
        self._platform = platform
        self._before: dict[int, NodeUsage] = {}
        self._at = 0.0

    def read(self, now: float) -> dict[str, Usage]:
        """Return cores and bytes in use by node name; cores from the second reading on."""
        names = {found.node.id: found.node.name for found in self._platform.observe()}
        used, before = self._platform.usage(), self._before
        elapsed, self._before, self._at = now - self._at, used, now
        return {
            names[node]: Usage(
                cpu=_cores(seen, before.get(node), elapsed=elapsed), memory=seen.memory
            )
            for node, seen in used.items()
            if node in names
        }


def _cores(seen: NodeUsage, before: NodeUsage | None, *, elapsed: float) -> float | None:
    if before is None or elapsed <= 0:
        return None
    return max(0.0, seen.cpu - before.cpu) / elapsed
