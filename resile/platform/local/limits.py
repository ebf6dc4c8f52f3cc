"""Giving each node its limits, and finding out who went over them.

Memory is limited by a cgroup where this machine lets us make one, else by watching: the memory of
the node's tree is measured every ``LOOK_EVERY`` seconds, and a node over its limit is to be killed.
Watching lets a node overshoot by what it can allocate in that time. Cpu is limited by a cgroup or
not at all. Which of these is done is logged once, before the first node with a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path

from resile.job.role import NodeResources
from resile.platform.local.capacity import CPU, MEMORY, MODELLED, Capacity, memory_text
from resile.platform.local.cgroup import Home, open_homes, remove, sweep
from resile.platform.local.errors import NoCgroupError
from resile.platform.local.kernel_limits import MemoryCgroup, limit_cpu
from resile.platform.local.proctree import Seen
from resile.platform.local.usage import uses_more_than

__all__ = ["LOOK_EVERY", "Fence", "Limiter", "MemoryEnforcement"]

LOOK_EVERY = 0.2
"""Seconds between two looks at the nodes that have a memory limit.

With a cgroup the kernel has already ended what was too large, and this is how long the rest of the
node may go on without it; reading one counter costs 20 µs. When watching it bounds the overshoot,
and costs a pass over /proc (2 ms on a machine with 150 processes).
"""

log = logging.getLogger("resile.platform")


class MemoryEnforcement(Enum):
    """Who keeps nodes within their memory."""

    AUTO = "auto"
    """A cgroup where possible, else watching."""

    CGROUP = "cgroup"
    WATCH = "watch"


@dataclass
class Fence:
    """The limits of one node."""

    memory_limit: int | None = None
    memory: MemoryCgroup | None = None
    cgroups: list[Path] = field(default_factory=list)
    """Folders that the node's processes are to be in."""

    def why_out_of_memory(self, tree: Callable[[], list[Seen]]) -> str:
        """A sentence if the node has used more memory than it may, else nothing.

        ``tree`` gives its living processes; it is called only where they have to be watched.
        """
        if self.memory_limit is None:
            return ""
        limit = memory_text(self.memory_limit)
        if self.memory is not None:
            return f"the kernel ended it at its limit of {limit}" if self.memory.kills() else ""
        if uses_more_than(self.memory_limit, tree()):
            return f"it was seen above its limit of {limit} and killed"
        return ""

    @property
    def is_watched(self) -> bool:
        """Whether nobody but us notices when it goes over its limit."""
        return self.memory_limit is not None and self.memory is None

    def take_down(self) -> bool:
        """Remove the node's cgroups; False while there are processes in them."""
        self.cgroups = [folder for folder in self.cgroups if not remove(folder)]
        return not self.cgroups


class Limiter:
    """Fences in the nodes of one job."""

    def __init__(self, job: str, enforcement: MemoryEnforcement) -> None:
        self._job, self._enforcement = job, enforcement
        self._homes: dict[str, Home] | None = None
        self._mentioned: set[str] = set(MODELLED)
        sweep(job, MODELLED)
        if enforcement is MemoryEnforcement.CGROUP and MEMORY not in self._open():
            raise NoCgroupError("no memory cgroup can be made below or beside that of this process")

    def fence(self, name: str, resources: NodeResources) -> Fence:
        """The limits of a node that is about to start."""
        self._mention_others(resources)
        limits = Capacity.of(resources.limits)
        fence = Fence(memory_limit=limits.memory or None)
        if limits.memory:
            self._limit_memory(fence, name, limits.memory)
        if limits.cpu:
            self._limit_cpu(fence, name, limits.cpu)
        return fence

    def close(self) -> None:
        """Remove the job's own folders."""
        for home in (self._homes or {}).values():
            remove(home.folder)
        self._homes = None

    def _mention_others(self, resources: NodeResources) -> None:
        """A manifest made for a cluster may ask for devices; here nobody counts them."""
        for name in resources.limits.keys() - self._mentioned:
            self._mentioned.add(name)
            log.info("%s is not counted on this machine: only cpu and memory are", name)

    def _limit_memory(self, fence: Fence, name: str, limit: int) -> None:
        home = self._open().get(MEMORY)
        if home is None:
            return
        try:
            folder = home.node_folder(name)
            fence.memory = MemoryCgroup(home.version, folder, limit=limit)
        except OSError as error:
            log.warning("%s has no memory cgroup (%s); its memory is watched", name, error)
        else:
            fence.cgroups.append(folder)

    def _limit_cpu(self, fence: Fence, name: str, cores: Decimal) -> None:
        home = self._open().get(CPU)
        if home is None:
            return
        try:
            folder = home.node_folder(name)
            limit_cpu(home.version, folder, cores=cores)
        except OSError as error:
            log.warning("%s has no cpu cgroup (%s); its cpu is not limited", name, error)
        else:
            if folder not in fence.cgroups:
                fence.cgroups.append(folder)

    def _open(self) -> dict[str, Home]:
        if self._homes is None:
            watch = self._enforcement is MemoryEnforcement.WATCH
            self._homes = open_homes(self._job, (CPU,) if watch else MODELLED)
            self._say_how()
        return self._homes

    def _say_how(self) -> None:
        homes = self._homes or {}
        memory, cpu = homes.get(MEMORY), homes.get(CPU)
        by_kernel = "by the kernel (cgroup version {}, {})"
        log.info(
            "memory limits are kept %s; cpu limits %s",
            by_kernel.format(memory.version.value, memory.folder)
            if memory
            else f"by watching every {LOOK_EVERY:g} s",
            by_kernel.format(cpu.version.value, cpu.folder) if cpu else "are not enforced",
        )
