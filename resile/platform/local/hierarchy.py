"""The cgroups of this process, and their limits. Read-only."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from resile.system.cgroups import Hierarchy, Version, locate

__all__ = ["find_hierarchy", "own_limits", "read_keyed"]

_NO_LIMIT = 2**60
"""Version 1 shows "no memory limit" as the greatest number that its page counter can hold."""


def find_hierarchy(controller: str) -> Hierarchy | None:
    """Return the hierarchy of ``controller`` on this machine; None if none is visible."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text()
        membership = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    found = locate(controller, mountinfo=mountinfo, membership=membership)
    if found is None or not found.own.is_dir():
        return None
    if found.version is Version.V1:
        return found
    handed_on = (_words(folder / "cgroup.controllers") for folder in found.upwards())
    return found if any(controller in names for names in handed_on) else None


def own_limits() -> tuple[Decimal | None, int | None]:
    """Return the limits of this process's cgroups in cores and bytes; None for no limit."""
    cpu, memory = find_hierarchy("cpu"), find_hierarchy("memory")
    cores = [_cores(cpu.version, folder) for folder in cpu.upwards()] if cpu else []
    amounts = [_memory(memory.version, folder) for folder in memory.upwards()] if memory else []
    return (
        min((found for found in cores if found is not None), default=None),
        min((found for found in amounts if found is not None), default=None),
    )


def read_keyed(file: Path, key: str) -> int:
    """Return the number after ``key`` in a file of lines such as ``oom_kill 3``; 0 if missing."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(words[1]) for words in map(str.split, lines) if words[:1] == [key]), 0)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _cores(version: Version, folder: Path) -> Decimal | None:
    if version is Version.V2:
        words = _words(folder / "cpu.max")
    else:
        words = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return Decimal(words[0]) / Decimal(words[1])


def _memory(version: Version, folder: Path) -> int | None:
    name = "memory.max" if version is Version.V2 else "memory.limit_in_bytes"
    words = _words(folder / name)
    if not words or words[0] == "max" or int(words[0]) >= _NO_LIMIT:
        return None
    return int(words[0])
