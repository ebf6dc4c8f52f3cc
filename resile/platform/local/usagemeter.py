"""What nodes use at the moment: cpu time since a node's start becomes cores in use."""

from __future__ import annotations

from typing import Protocol

from resile.control.observed import ObservedNode
from resile.platform.local.usage import NodeUsage
from resile.wire.messages import Usage

__all__ = ["UsageMeter"]


class Measured(Protocol):
    """What is measured: a platform."""

    def observe(self) -> tuple[ObservedNode, ...]:
        """All nodes there are."""

    def usage(self) -> dict[int, NodeUsage]:
        """What the running ones have used so far, by node id."""


class UsageMeter:
    """Compares each reading with the one before."""

    def __init__(self, platform: Measured) -> None:
        self._platform = platform
        self._before: dict[int, NodeUsage] = {}
        self._at = 0.0

    def read(self, now: float) -> dict[str, Usage]:
        """Cores and bytes in use by each node's name; cores from the second reading on."""
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
