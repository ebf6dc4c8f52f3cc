"""How much cpu and memory a node's whole tree of processes uses.

Memory that several processes share (a nursery and the workers forked from it share all of torch) is
counted once, by adding up each process's proportional share (PSS). That walks page tables, some
milliseconds for each gigabyte, so where only an upper bound is needed the resident sizes do.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from resile.platform.local.proctree import Seen

__all__ = ["NodeUsage", "cpu_seconds", "memory_bytes", "uses_more_than"]


@dataclass(frozen=True)
class NodeUsage:
    """What one node uses."""

    cpu: float
    """Seconds since its start, those of processes that have ended included."""

    memory: int
    """Bytes."""


def cpu_seconds(warden: Seen, tree: Iterable[Seen]) -> float:
    """Cpu time of everything below ``warden``: of the living, and of those they waited for."""
    return warden.reaped_seconds + sum(seen.cpu_seconds + seen.reaped_seconds for seen in tree)


def memory_bytes(tree: Iterable[Seen]) -> int:
    """Memory of all processes of a tree, shared pages counted once."""
    return sum(_share(seen) for seen in tree)


def uses_more_than(limit: int, tree: list[Seen]) -> bool:
    """Whether a tree's memory exceeds ``limit``."""
    return sum(seen.resident for seen in tree) > limit and memory_bytes(tree) > limit


def _share(seen: Seen) -> int:
    """The proportional share of one process; all that is resident where that cannot be read."""
    with suppress(OSError), open(f"/proc/{seen.pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return seen.resident
