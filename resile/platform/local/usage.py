"""The cpu and memory usage of a node's whole process tree.

Memory that several processes share (a nursery and the workers forked from it share all of torch) is
counted once, by adding up each process's proportional share (PSS). That walks page tables, some
milliseconds for each gigabyte, so where an upper bound suffices the resident sizes are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from resile.platform.local.proctree import Seen

__all__ = ["NodeUsage", "cpu_seconds", "memory_bytes", "uses_more_than"]


@dataclass(frozen=True)
class NodeUsage:
    """The usage of one node."""

    cpu: float
    """Cpu seconds since its start, including processes that have ended."""

    memory: int
    """Bytes."""


def cpu_seconds(supervisor: Seen, tree: Iterable[Seen]) -> float:
    """Return the cpu time of all descendants of ``supervisor``, including those already reaped."""
    return supervisor.reaped_seconds + sum(seen.cpu_seconds + seen.reaped_seconds for seen in tree)


def memory_bytes(tree: Iterable[Seen]) -> int:
    """Return the memory of all processes of a tree, with shared pages counted once."""
    return sum(_share(seen) for seen in tree)


def uses_more_than(limit: int, tree: list[Seen]) -> bool:
    """Return whether a tree's memory exceeds ``limit``."""
    return sum(seen.resident for seen in tree) > limit and memory_bytes(tree) > limit


def _share(seen: Seen) -> int:
    """The proportional share (PSS) of one process, or its resident size if that is unreadable."""
    with suppress(OSError), open(f"/proc/{seen.pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return seen.resident
