"""The cpu and memory usage of a node's whole process tree.

Memory that several processes share (a nursery and the workers forked from it share all of torch)
is counted once, by adding up each process's proportional share (PSS). That walks page tables,
some milliseconds for each gigabyte, so where an upper bound suffices the resident sizes are
used. Cpu time since a node's start becomes cores in use by comparing successive readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from resile.control.observed import ObservedNode
from resile.system.process_tree import ProcessInfo
from resile.wire.messages import Usage

__all__ = [
    "NodeUsage",
    "UsageMeter",
    "cpu_seconds",
    "memory_bytes",
    "uses_more_than",
]


@dataclass(frozen=True)
class NodeUsage:
    """The usage of one node."""

    cpu: float
    """Cpu seconds since its start, including processes that have ended."""

    memory: int
    """Bytes."""


def cpu_seconds(supervisor: ProcessInfo, tree: Iterable[ProcessInfo]) -> float:
    """Return the cpu time of all descendants of ``supervisor``, including those already reaped."""
    return supervisor.reaped_seconds + sum(seen.cpu_seconds + seen.reaped_seconds for seen in tree)


def memory_bytes(tree: Iterable[ProcessInfo]) -> int:
    """Return the memory of all processes of a tree, with shared pages counted once."""
    return sum(_share(seen) for seen in tree)


def uses_more_than(limit: int, tree: list[ProcessInfo]) -> bool:
    """Return whether a tree's memory exceeds ``limit``."""
    return sum(seen.resident for seen in tree) > limit and memory_bytes(tree) > limit


def _share(seen: ProcessInfo) -> int:
    """Return the proportional share (PSS) of a process, or its resident size if unreadable."""
    with suppress(OSError), open(f"/proc/{seen.pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return seen.resident


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
