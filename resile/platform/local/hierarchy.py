"""Where this process is in the machine's cgroup hierarchies.

Version 1 has a hierarchy for each controller, version 2 one for all, and a machine may have both
(memory under version 1, the rest under version 2). What the kernel shows in /proc is read here;
nothing is changed. A container often sees only a part of a hierarchy: its mount then starts at
the container's own cgroup, and paths have to be cut accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath

__all__ = ["Hierarchy", "Version", "find_hierarchy", "locate", "own_limits", "read_keyed"]

_NO_LIMIT = 2**60
"""Version 1 shows no memory limit as the greatest number that its page counter can hold."""


class Version(Enum):
    """The two kinds of hierarchy."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True)
class Hierarchy:
    """One hierarchy, and the place of this process in it."""

    version: Version
    mount: Path
    own: Path
    """The folder of the cgroup that this process is in."""

    def upwards(self) -> Iterator[Path]:
        """The own folder, then those above it that can be seen."""
        folder = self.own
        yield folder
        while folder != self.mount:
            folder = folder.parent
            yield folder


def find_hierarchy(controller: str) -> Hierarchy | None:
    """The hierarchy of ``controller`` on this machine; None if there is none that can be seen."""
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


def locate(controller: str, *, mountinfo: str, membership: str) -> Hierarchy | None:
    """The same, from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    paths: dict[str, str] = {}
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(",") if names else [number]:
            paths[name] = path
    for version, key, kind in ((Version.V1, controller, "cgroup"), (Version.V2, "0", "cgroup2")):
        for root, mount, options in _mounts(mountinfo, kind):
            if key in paths and (version is Version.V2 or controller in options):
                own = _below(mount, root=root, path=paths[key])
                if own is not None:
                    return Hierarchy(version, mount, own)
    return None


def own_limits() -> tuple[Decimal | None, int | None]:
    """The cores and the bytes that this process's cgroups leave it; None where they say nothing."""
    cpu, memory = find_hierarchy("cpu"), find_hierarchy("memory")
    cores = [_cores(cpu.version, folder) for folder in cpu.upwards()] if cpu else []
    amounts = [_memory(memory.version, folder) for folder in memory.upwards()] if memory else []
    return (
        min((found for found in cores if found is not None), default=None),
        min((found for found in amounts if found is not None), default=None),
    )


def read_keyed(file: Path, key: str) -> int:
    """The number after ``key`` in a file of lines such as ``oom_kill 3``; 0 if it is not there."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(words[1]) for words in map(str.split, lines) if words[:1] == [key]), 0)


def _mounts(mountinfo: str, kind: str) -> Iterator[tuple[str, Path, set[str]]]:
    """Root, mount point and options of each mount of a file system (proc(5), 3.5)."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, (found, _, options) = left.split(), (*right.split(), "", "", "")[:3]
        if found == kind and len(fields) > 4:
            yield fields[3], Path(fields[4]), set(options.split(","))


def _below(mount: Path, *, root: str, path: str) -> Path | None:
    """The folder that stands for ``path`` where only what is below ``root`` can be seen."""
    try:
        return mount / PurePosixPath(path).relative_to(root)
    except ValueError:
        return None


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
