"""Enforce each node's limits, and detect nodes that exceed them.

Memory is limited by a cgroup where this machine allows one, else by polling: the memory of the
node's process tree is measured every ``POLL_INTERVAL`` seconds, and a node over its limit is
killed. With polling a node can overshoot by what it allocates in that time. Cpu is limited by a
cgroup or not at all. The method is logged once, before the first node with a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path

from resile.job.spec.role import NodeResources
from resile.local.capacity import CPU, MEMORY, MODELLED, Capacity, memory_text
from resile.local.errors import NoCgroupError
from resile.local.limits.cgroups import (
    JobCgroup,
    MemoryCgroup,
    create_job_cgroups,
    limit_cpu,
    remove,
    sweep,
)
from resile.local.limits.usage import uses_more_than
from resile.system.process_tree import ProcessInfo

__all__ = ["POLL_INTERVAL", "NodeLimits", "Limiter", "MemoryEnforcement"]

POLL_INTERVAL = 0.2
"""Seconds between two checks of the nodes that have a memory limit.

With a cgroup the kernel has already killed a process, and this is how long the rest of the node may
continue without it; reading one counter costs 20 µs. With polling it bounds the overshoot, and
costs a pass over /proc (2 ms on a machine with 150 processes).
"""

log = logging.getLogger("resile.platform")


class MemoryEnforcement(Enum):
    """The method by which memory limits are enforced."""

    AUTO = "auto"
    """A cgroup where possible, else polling."""

    CGROUP = "cgroup"
    WATCH = "watch"


@dataclass
class NodeLimits:
    """The limits of one node."""

    memory_limit: int | None = None
    memory: MemoryCgroup | None = None
    cgroups: list[Path] = field(default_factory=list)
    """The cgroup folders of the node's processes."""

    def why_out_of_memory(self, tree: Callable[[], list[ProcessInfo]]) -> str:
        """Return the reason if the node has exceeded its memory limit, else an empty string.

        ``tree`` returns its live processes; it is called only if they have to be measured.
        """
        if self.memory_limit is None:
            return ""
        limit = memory_text(self.memory_limit)
        if self.memory is not None:
            return f"the kernel killed it at its limit of {limit}" if self.memory.kills() else ""
        if uses_more_than(self.memory_limit, tree()):
            return f"it exceeded its limit of {limit} and was killed"
        return ""

    @property
    def is_watched(self) -> bool:
        """True if its memory has to be measured here, because no cgroup limits it."""
        return self.memory_limit is not None and self.memory is None

    def take_down(self) -> bool:
        """Remove the node's cgroups; return False while there are processes in them."""
        self.cgroups = [folder for folder in self.cgroups if not remove(folder)]
        return not self.cgroups


class Limiter:
    """Sets up the limits of one job's nodes."""

    def __init__(self, job: str, enforcement: MemoryEnforcement) -> None:
        self._job, self._enforcement = job, enforcement
        self._homes: dict[str, JobCgroup] | None = None
        self._mentioned: set[str] = set(MODELLED)
        sweep(job, MODELLED)
        if enforcement is MemoryEnforcement.CGROUP and MEMORY not in self._open():
            raise NoCgroupError(
                "no memory cgroup can be created below or beside that of this process"
            )

    def set_up(self, name: str, resources: NodeResources) -> NodeLimits:
        """Set up and return the limits of a node that is about to start."""
        self._mention_others(resources)
        limits = Capacity.of(resources.limits)
        node = NodeLimits(memory_limit=limits.memory or None)
        if limits.memory:
            self._limit_memory(node, name, limits.memory)
        if limits.cpu:
            self._limit_cpu(node, name, limits.cpu)
        return node

    def close(self) -> None:
        """Remove the job's own folders."""
        for home in (self._homes or {}).values():
            remove(home.folder)
        self._homes = None

    def _mention_others(self, resources: NodeResources) -> None:
        """Log that resources such as devices, which a manifest for a cluster may name, are
        ignored."""
        for name in resources.limits.keys() - self._mentioned:
            self._mentioned.add(name)
            log.info("%s is ignored on this machine: only cpu and memory are limited", name)

    def _limit_memory(self, node: NodeLimits, name: str, limit: int) -> None:
        home = self._open().get(MEMORY)
        if home is None:
            return
        try:
            folder = home.node_folder(name)
            node.memory = MemoryCgroup(home.version, folder, limit=limit)
        except OSError as error:
            log.warning("%s has no memory cgroup (%s); its memory is polled", name, error)
        else:
            node.cgroups.append(folder)

    def _limit_cpu(self, node: NodeLimits, name: str, cores: Decimal) -> None:
        home = self._open().get(CPU)
        if home is None:
            return
        try:
            folder = home.node_folder(name)
            limit_cpu(home.version, folder, cores=cores)
        except OSError as error:
            log.warning("%s has no cpu cgroup (%s); its cpu is not limited", name, error)
        else:
            if folder not in node.cgroups:
                node.cgroups.append(folder)

    def _open(self) -> dict[str, JobCgroup]:
        if self._homes is None:
            watch = self._enforcement is MemoryEnforcement.WATCH
            self._homes = create_job_cgroups(self._job, (CPU,) if watch else MODELLED)
            self._say_how()
        return self._homes

    def _say_how(self) -> None:
        homes = self._homes or {}
        memory, cpu = homes.get(MEMORY), homes.get(CPU)
        by_kernel = "by the kernel (cgroup version {}, {})"
        log.info(
            "memory limits are enforced %s; cpu limits %s",
            by_kernel.format(memory.version.value, memory.folder)
            if memory
            else f"by polling every {POLL_INTERVAL:g} s",
            by_kernel.format(cpu.version.value, cpu.folder) if cpu else "are not enforced",
        )
