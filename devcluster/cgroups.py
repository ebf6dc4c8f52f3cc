"""The control groups of a node's containers: cgroup version 1.

Kubernetes 1.20 requires that its root group exists under every controller. Every process in a
container is in its node's group, so the group also shows which processes to end with the node.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.waiting import holds_within

_GONE_WITHIN = 20.0
# A new cpuset has no CPU and no memory node; the kubelet refuses such a group.
_COPIED_FROM_PARENT = ("cpuset.cpus", "cpuset.mems")


def hierarchies(mounts: str, kind: str) -> list[Path]:
    """The mount points of cgroups of a kind (cgroup, cgroup2), from the text of /proc/mounts."""
    lines = (line.split() for line in mounts.splitlines())
    return [Path(fields[1]) for fields in lines if fields[2] == kind]


def mounted_hierarchies(kind: str = "cgroup") -> list[Path]:
    return hierarchies(Path("/proc/mounts").read_text(), kind)


def ensure_group(name: str) -> None:
    """Create a group, also a nested `parent/child`, under every controller."""
    for root in mounted_hierarchies():
        group = root
        for part in Path(name).parts:
            parent, group = group, group / part
            group.mkdir(exist_ok=True)
            for setting in _COPIED_FROM_PARENT:
                if (parent / setting).exists() and not (group / setting).read_text().strip():
                    (group / setting).write_text((parent / setting).read_text())


def processes(name: str) -> set[int]:
    """All processes in a group and the groups below it."""
    return {pid for group in _groups(name) for pid in _members(group)}


def end_processes(pids_now: Iterable[int]) -> None:
    """SIGKILL the processes; those that have already ended are ignored."""
    for pid in pids_now:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def remove_group(name: str) -> None:
    """Kill every process in a group, then remove it and its subgroups."""

    def empty() -> bool:
        end_processes(processes(name))
        return not processes(name)

    if not holds_within(_GONE_WITHIN, empty):
        raise ClusterError(f"processes in the cgroup {name} survive SIGKILL: {processes(name)}")
    if not holds_within(_GONE_WITHIN, lambda: _removed(name)):
        raise ClusterError(f"the cgroup {name} is still busy")


def _removed(name: str) -> bool:
    for group in _groups(name):
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # A process that has just ended keeps the group busy for a moment.
            return False
    return True


def _groups(name: str) -> list[Path]:
    """A group and its subgroups under every controller, deepest first.

    Includes version 2: runc creates groups there when it is mounted beside version 1.
    """
    found = [
        Path(folder)
        for root in (*mounted_hierarchies(), *mounted_hierarchies("cgroup2"))
        for folder, _, _ in os.walk(root / name, topdown=False)
    ]
    return sorted(found, key=lambda group: len(group.parts), reverse=True)


def _members(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except FileNotFoundError:
        return []
