"""The cgroups of a job's nodes: limits that the kernel enforces.

A job has one folder in each hierarchy it uses, named ``resile.JOB.NAMESPACE.PID.BORN`` after the
process that created it; below it each node has its own. The folder is in the cgroup of this
process, so whatever limits us limits our nodes as well. Under version 2 a cgroup that contains
processes cannot delegate controllers to its children; there the folder is beside ours, if we may
write there. A run that crashed may leave folders behind, even with processes in them if its
supervisors were killed as well. :func:`sweep` kills and removes what belongs to a process that
is gone, and nothing else.

Memory: the limit includes swap, so that a node over its limit is really killed. Under version 2
the kernel can kill all processes of the cgroup together; under version 1 it kills one, so the
count of kills has to be polled and the rest killed here. Cpu: a quota of time in each period of
100 ms, which is the kernel's own default.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from resile.system.cgroups import Hierarchy, Version, find_hierarchy, read_keyed
from resile.system.process_tree import read_process

__all__ = [
    "JobCgroup",
    "MemoryCgroup",
    "create_job_cgroups",
    "limit_cpu",
    "remove",
    "sweep",
]


_PERIOD = 100_000
_LEAST_QUOTA = 1_000
"""The minimum quota in microseconds that the kernel accepts."""


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
    """A node's cgroup with a memory limit."""

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


_EMPTY_WITHIN = 2.0
"""Seconds that killed processes of a crashed run may take to leave their cgroup."""


@dataclass(frozen=True)
class JobCgroup:
    """The job's folder in one hierarchy."""

    version: Version
    folder: Path

    def node_folder(self, name: str) -> Path:
        """Return the cgroup of the node of that name; create it if need be. May raise OSError."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder


def create_job_cgroups(job: str, controllers: Iterable[str]) -> dict[str, JobCgroup]:
    """Create the job's folder for each controller; those that cannot be used are left out."""
    homes: dict[str, JobCgroup] = {}
    shared: Path | None = None
    for controller in controllers:
        hierarchy = find_hierarchy(controller)
        if hierarchy is None:
            continue
        # A process is in one cgroup of version 2 only, so all controllers there share a folder.
        parents = [shared] if shared and hierarchy.version is Version.V2 else _parents(hierarchy)
        for parent in parents:
            folder = parent / _home_name(job)
            if _usable(controller, hierarchy.version, folder):
                homes[controller] = JobCgroup(hierarchy.version, folder)
                shared = parent if hierarchy.version is Version.V2 else shared
                break
    return homes


def remove(folder: Path) -> bool:
    """Remove a cgroup without processes; return False if it still has some."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def sweep(job: str, controllers: Iterable[str]) -> None:
    """Remove the cgroups that crashed runs of the same job left behind."""
    for controller in controllers:
        hierarchy = find_hierarchy(controller)
        for parent in _parents(hierarchy) if hierarchy else ():
            for folder in _stale(job, parent):
                _clear(folder)


def _parents(hierarchy: Hierarchy) -> list[Path]:
    if hierarchy.version is Version.V1 or hierarchy.own == hierarchy.mount:
        return [hierarchy.own]
    return [hierarchy.own, hierarchy.own.parent]


def _usable(controller: str, version: Version, folder: Path) -> bool:
    """Create the job's folder, and check that a process can enter a cgroup below it."""
    try:
        folder.mkdir(exist_ok=True)
        if version is Version.V2:
            for above in (folder.parent, folder):
                (above / "cgroup.subtree_control").write_text(f"+{controller}")
        _try_to_enter(folder / "trial")
    except OSError:
        remove(folder)
        return False
    return True


def _try_to_enter(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    try:
        entered = subprocess.run(
            ["/bin/sh", "-c", 'echo 0 > "$0"', str(folder / "cgroup.procs")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    finally:
        remove(folder)
    if entered.returncode != 0:
        raise PermissionError(f"no process can enter {folder}")


def _home_name(job: str) -> str:
    own = read_process(os.getpid())
    return f"resile.{job}.{_pid_namespace()}.{os.getpid()}.{own.born if own else 0}"


def _pid_namespace() -> int:
    """Return the namespace where our pids are valid: containers may share cgroups but not pids."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _stale(job: str, parent: Path) -> Iterator[Path]:
    """Yield the folders of this job whose creator is gone; its pid may have been reused. Whether
    a creator in another pid namespace is alive cannot be seen from here."""
    shape = re.compile(rf"resile\.{re.escape(job)}\.{_pid_namespace()}\.([0-9]+)\.([0-9]+)")
    for folder in parent.iterdir():
        match = shape.fullmatch(folder.name)
        maker = read_process(int(match[1])) if match else None
        if match and (maker is None or maker.born != int(match[2])):
            yield folder


def _clear(home: Path) -> None:
    folders = [path for path in home.iterdir() if path.is_dir()]
    deadline = time.monotonic() + _EMPTY_WITHIN
    while folders and time.monotonic() < deadline:
        for folder in folders:
            _kill_members(folder)
        folders = [folder for folder in folders if not remove(folder)]
        time.sleep(0.01 if folders else 0)
    remove(home)


def _kill_members(folder: Path) -> None:
    with suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            if pid == "0":
                continue  # in another pid namespace; kill(0) would signal ourselves
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
