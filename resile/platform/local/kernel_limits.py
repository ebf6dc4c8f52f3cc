"""The control files of memory and cpu limits in a cgroup, for both versions.

Memory: the limit includes swap, so that a node over its limit is really killed. Under version 2 the
kernel can kill all processes of the cgroup together; under version 1 it kills one, so the count of
kills has to be polled and the rest killed here.

Cpu: a quota of time in each period of 100 ms, which is the kernel's own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from resile.platform.local.hierarchy import read_keyed
from resile.system.cgroups import Version

__all__ = ["MemoryCgroup", "limit_cpu"]

_PERIOD = 100_000
_LEAST_QUOTA = 1_000
"""In microseconds; the kernel accepts no less."""


@dataclass(frozen=True)
class _MemoryFiles:
    limit: str
    optional: Mapping[str, str]
    """Files that not every kernel has, and their values; {} stands for the limit."""

    events: str
    used: str
    reclaimable: str
    """The line of memory.stat with the file cache that the kernel reclaims first."""


_FILES = {
    Version.V1: _MemoryFiles(
        limit="memory.limit_in_bytes",
        optional={"memory.memsw.limit_in_bytes": "{}"},
        events="memory.oom_control",
        used="memory.usage_in_bytes",
        reclaimable="total_inactive_file",
    ),
    Version.V2: _MemoryFiles(
        limit="memory.max",
        optional={"memory.swap.max": "0", "memory.oom.group": "1"},
        events="memory.events",
        used="memory.current",
        reclaimable="inactive_file",
    ),
}


class MemoryCgroup:
    """One node's cgroup with a memory limit."""

    def __init__(self, version: Version, folder: Path, *, limit: int) -> None:
        """Set the limit. Raises OSError if the kernel rejects it."""
        self._files = _FILES[version]
        self._folder = folder
        (folder / self._files.limit).write_text(str(limit))
        for name, value in self._files.optional.items():
            if (folder / name).exists():
                (folder / name).write_text(value.format(limit))

    def kills(self) -> int:
        """Return how many of its processes the kernel has killed because of memory."""
        return read_keyed(self._folder / self._files.events, "oom_kill")

    def used(self) -> int:
        """Return the bytes in use that cannot be reclaimed."""
        try:
            used = int((self._folder / self._files.used).read_text())
        except OSError:
            return 0
        return max(0, used - read_keyed(self._folder / "memory.stat", self._files.reclaimable))


def limit_cpu(version: Version, folder: Path, *, cores: Decimal) -> None:
    """Limit the processes in ``folder`` to ``cores``. May raise OSError."""
    quota = max(_LEAST_QUOTA, int(cores * _PERIOD))
    if version is Version.V2:
        (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
