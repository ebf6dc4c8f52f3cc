"""The cgroups of a job's nodes: limits that the kernel enforces.

A job has one folder in each hierarchy it uses, named ``resile.JOB.NAMESPACE.PID.BORN`` after the
process that created it; below it each node has its own. The folder is in the cgroup of this
process, so whatever limits us limits our nodes as well. Under version 2 a cgroup that contains
processes cannot delegate controllers to its children; there the folder is beside ours, if we may
write there.

A run that crashed may leave folders behind, even with processes in them if its supervisors were
killed as well. :func:`sweep` kills and removes what belongs to a process that is gone, and nothing
else.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resile.platform.local.hierarchy import find_hierarchy
from resile.platform.local.proctree import read_process
from resile.system.cgroups import Hierarchy, Version

__all__ = ["Home", "open_homes", "remove", "sweep"]

_EMPTY_WITHIN = 2.0
"""Seconds that killed processes of a crashed run may take to leave their cgroup."""


@dataclass(frozen=True)
class Home:
    """The job's folder in one hierarchy."""

    version: Version
    folder: Path

    def node_folder(self, name: str) -> Path:
        """Return the cgroup of the node of that name; create it if need be. May raise OSError."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder


def open_homes(job: str, controllers: Iterable[str]) -> dict[str, Home]:
    """Create the job's folder for each controller; those that cannot be used are left out."""
    homes: dict[str, Home] = {}
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
                homes[controller] = Home(hierarchy.version, folder)
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
    """The namespace in which our pids are valid: containers may share cgroups but not pids."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _stale(job: str, parent: Path) -> Iterator[Path]:
    """The folders of this job whose creator is gone; its pid may have been reused. Whether a
    creator in another pid namespace is alive cannot be seen from here."""
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
