"""The position of a process in the machine's cgroup hierarchies, as shown in /proc.

Version 1 has a hierarchy for each controller, version 2 one for all, and a machine may have both
(memory under version 1, the rest under version 2). A container often sees only a part of a
hierarchy: its mount then starts at the container's own cgroup, and paths are shortened
accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

__all__ = ["Hierarchy", "Version", "locate", "locate_visible"]


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
