"""The memory budget of snapshots: what the machine has free, and what its cgroups allow.

The kernel would not refuse a snapshot that does not fit: its OOM killer would kill a process. So
the limits are checked first. Memory that only caches files counts as free: the kernel reclaims it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.system.cgroups import locate_visible

__all__ = ["RESERVE", "MemoryBudget", "check_budget", "find_budget", "gibibytes"]

RESERVE = 1 / 16
"""The fraction of memory that is kept free: training itself needs a little more at times."""

LARGEST_RESERVE = 1 << 30
_NO_LIMIT = 1 << 60
"""cgroup version 1 shows "no limit" as the largest value of its page counter."""


@dataclass(frozen=True)
class MemoryBudget:
    """Free memory, and what limits it."""

    free: int
    limited_by: str


def check_budget(part: int, growth: int, *, room: MemoryBudget) -> None:
    """Raise :class:`NoMemoryForSnapshot` unless ``growth`` more bytes fit.

    ``part``: the size of one snapshot.
    """
    if growth <= room.free:
        return
    buffers = " for two buffers" if growth > part else ""
    raise NoMemoryForSnapshot(
        f"a snapshot of {gibibytes(part)} needs {gibibytes(growth)} of memory{buffers}, "
        f"{gibibytes(room.free)} is free ({room.limited_by})"
    )


def find_budget(*, proc: Path = Path("/proc")) -> MemoryBudget:
    """The memory that may be used now: the minimum over the machine and all our memory cgroups."""
    return min(_rooms(proc), key=lambda room: room.free)


def _rooms(proc: Path) -> Iterator[MemoryBudget]:
    memory = _keyed(proc / "meminfo")
    total = memory.get("MemTotal:", 0) * 1024
    yield _room(total, memory.get("MemAvailable:", 0) * 1024, "on this machine")
    for folder in _memory_cgroups(proc):
        for limit_file, usage_file, cached in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _number(folder / limit_file), _number(folder / usage_file)
            if limit is not None and used is not None and limit < _NO_LIMIT:
                reclaimable = _keyed(folder / "memory.stat").get(cached, 0)
                yield _room(limit, limit - used + reclaimable, f"limit of the cgroup {folder}")


def _memory_cgroups(proc: Path) -> Iterable[Path]:
    """Folders of the visible memory cgroups, from our own upwards."""
    try:
        mountinfo = (proc / "self/mountinfo").read_text()
        membership = (proc / "self/cgroup").read_text()
    except OSError:
        return ()
    found = locate_visible("memory", mountinfo=mountinfo, membership=membership)
    return () if found is None else found.upwards()


def gibibytes(size: int) -> str:
    """Format a size: 1.2 GiB, 35.0 MiB."""
    if size >= 1 << 30:
        return f"{size / (1 << 30):.1f} GiB"
    return f"{max(size, 0) / (1 << 20):.1f} MiB"


def _room(total: int, free: int, limited_by: str) -> MemoryBudget:
    reserve = min(int(total * RESERVE), LARGEST_RESERVE)
    return MemoryBudget(
        max(0, free - reserve), f"{limited_by}; {gibibytes(reserve)} are kept in reserve"
    )


def _keyed(path: Path) -> dict[str, int]:
    """Parse lines of a name and a number."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
