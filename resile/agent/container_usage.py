"""The resource usage of a node in its own container, read from the container's cgroup.

On one machine the platform measures the processes of its nodes; on a cluster there is no source
that everyone can read, so the node's agent reports it. Memory is what counts against the
container's limit, without the file pages that the kernel would reclaim first: the kubelet's working
set.
"""

from __future__ import annotations

from pathlib import Path

from resile.system.cgroups import Version, find_hierarchy, read_keyed
from resile.wire.messages import Usage

__all__ = ["IN_A_POD", "ContainerMeter", "is_the_machines"]

IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""The variable that a kubelet gives every container."""

INTERVAL = 2.0
"""Seconds between two readings: the same interval as on one machine."""

_MICRO, _NANO = 1e6, 1e9


class ContainerMeter:
    """Computes usage from successive readings. ``cpu``, ``memory``: the cgroup's folders."""

    def __init__(
        self, cpu: tuple[Version, Path] | None, memory: tuple[Version, Path] | None
    ) -> None:
        self._cpu = cpu
        self._memory = memory
        self._seconds: float | None = None
        self._at = float("-inf")
        self._last: Usage | None = None

    @classmethod
    def of_this_process(cls) -> ContainerMeter:
        """Return a meter for the cgroup of this process; what cannot be read is left out."""
        return cls(_own_folder("cpuacct") or _own_folder("cpu"), _own_folder("memory"))

    def read(self, now: float) -> Usage | None:
        """Return cores, from the second reading on, and bytes; None if nothing can be read."""
        if now < self._at + INTERVAL:
            return self._last
        seconds, memory, elapsed = self._cpu_seconds(), self._bytes(), now - self._at
        cores = None
        if seconds is not None and self._seconds is not None:
            cores = max(0.0, seconds - self._seconds) / elapsed
        self._seconds, self._at = seconds, now
        known = cores is not None or memory is not None
        self._last = Usage(cpu=cores, memory=memory) if known else None
        return self._last

    def _cpu_seconds(self) -> float | None:
        if self._cpu is None:
            return None
        version, folder = self._cpu
        if version is Version.V2:
            used = read_keyed(folder / "cpu.stat", "usage_usec")
            return used / _MICRO if used else None
        found = _number(folder / "cpuacct.usage")
        return None if found is None else found / _NANO

    def _bytes(self) -> int | None:
        if self._memory is None:
            return None
        version, folder = self._memory
        name, idle = ("memory.usage_in_bytes", "total_inactive_file")
        if version is Version.V2:
            name, idle = "memory.current", "inactive_file"
        used = _number(folder / name)
        return None if used is None else max(0, used - read_keyed(folder / "memory.stat", idle))


def _own_folder(controller: str) -> tuple[Version, Path] | None:
    found = find_hierarchy(controller)
    if found is None or is_the_machines(found.version, found.own):
        return None
    return found.version, found.own


def is_the_machines(version: Version, folder: Path) -> bool:
    """Return whether a cgroup is the root of its hierarchy, which counts what others use.

    Only the root of version 1 has a release agent, and only that of version 2 has no events.
    """
    if version is Version.V1:
        return (folder / "release_agent").exists()
    return not (folder / "cgroup.events").exists()


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
