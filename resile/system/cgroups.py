"""The cgroups of a process, from /proc, and the limits of this one's. Read-only.

Version 1 has a hierarchy for each controller, version 2 one for all, and a machine may have both
(memory under version 1, the rest under version 2). A container often sees only a part of a
hierarchy: its mount then starts at the container's own cgroup, and paths have to be cut
accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath

__all__ = [
    "Hierarchy",
    "Version",
    "find_hierarchy",
    "locate",
    "locate_visible",
    "own_limits",
    "read_keyed",
]


class Version(Enum):
    """The cgroup version of a hierarchy."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True)
class Hierarchy:
    """A hierarchy, and the position of a process in it."""

    version: Version
    mount: Path
    own: Path
    """The folder of the process's cgroup."""

    def upwards(self) -> Iterator[Path]:
        """The process's own folder, then the visible ones above it."""
        folder = self.own
        yield folder
        while folder != self.mount:
            folder = folder.parent
            yield folder


def locate(controller: str, *, mountinfo: str, membership: str) -> Hierarchy | None:
    """The hierarchy of ``controller``, from the texts of /proc/PID/mountinfo and /proc/PID/cgroup;
    None if the process's own cgroup is not visible in any."""
    for version, mount, own in _candidates(controller, mountinfo, membership):
        if own is not None:
            return Hierarchy(version, mount, own)
    return None


def locate_visible(controller: str, *, mountinfo: str, membership: str) -> Hierarchy | None:
    """The same, but a process whose own cgroup is not visible is assumed to be at the top of the
    visible ones: that cgroup is above its own, or its own under another name."""
    for version, mount, own in _candidates(controller, mountinfo, membership):
        return Hierarchy(version, mount, mount if own is None else own)
    return None


def _candidates(
    controller: str, mountinfo: str, membership: str
) -> Iterator[tuple[Version, Path, Path | None]]:
    """Version, mount and own folder in each hierarchy that may have the controller."""
    paths: dict[str, str] = {}
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(",") if names else [number]:
            paths[name] = path
    for version, key, kind in ((Version.V1, controller, "cgroup"), (Version.V2, "0", "cgroup2")):
        for root, mount, options in _mounts(mountinfo, kind):
            if key in paths and (version is Version.V2 or controller in options):
                yield version, mount, _below(mount, root=root, path=paths[key])


def _mounts(mountinfo: str, kind: str) -> Iterator[tuple[str, Path, set[str]]]:
    """Root, mount point and options of each mount of a file system (proc(5), 3.5)."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, (found, _, options) = left.split(), (*right.split(), "", "", "")[:3]
        if found == kind and len(fields) > 4:
            yield fields[3], Path(fields[4]), set(options.split(","))


def _below(mount: Path, *, root: str, path: str) -> Path | None:
    """The folder of ``path`` in a mount that shows only what is below ``root``."""
    try:
        return mount / PurePosixPath(path).relative_to(root)
    except ValueError:
        return None


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
