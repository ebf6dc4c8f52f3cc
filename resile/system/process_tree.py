"""The process table of this machine, and the descendants of a process.

One pass over /proc serves all nodes at once, and costs some 12 µs a process. It imports as little
as possible: every node's supervisor loads this as it starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from resile.system.processes import stat_fields

__all__ = ["ProcessInfo", "descendants", "list_processes", "read_process"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessInfo(NamedTuple):
    """A process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    session: int
    born: int
    """The start time in clock ticks since boot; with the pid it identifies a process uniquely."""

    cpu_seconds: float
    reaped_seconds: float
    """The cpu time of children that have ended and been reaped."""

    resident: int
    """Resident bytes, including pages shared with others."""


def read_process(pid: int) -> ProcessInfo | None:
    """Read one process; None if there is none with that pid."""
    fields = stat_fields(pid)
    if fields is None:
        return None
    user, system, reaped_user, reaped_system = map(int, fields[11:15])
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        born=int(fields[19]),
        cpu_seconds=(user + system) / _TICKS,
        reaped_seconds=(reaped_user + reaped_system) / _TICKS,
        resident=int(fields[21]) * _PAGE,
    )


def list_processes() -> dict[int, ProcessInfo]:
    """Read all processes, by pid."""
    with os.scandir("/proc") as entries:
        found = [read_process(int(entry.name)) for entry in entries if entry.name.isdigit()]
    return {seen.pid: seen for seen in found if seen is not None}


def descendants(root: int, processes: Mapping[int, ProcessInfo]) -> list[ProcessInfo]:
    """Return all descendants of ``root``, parents before their children."""
    children: dict[int, list[ProcessInfo]] = {}
    for seen in processes.values():
        children.setdefault(seen.parent, []).append(seen)
    found = list(children.get(root, ()))
    for seen in found:
        found.extend(children.get(seen.pid, ()))
    return found
