"""Processes as shown in /proc, with the start time that tells apart processes of the same pid."""

from __future__ import annotations

__all__ = ["boot_id", "start_time", "stat_fields"]

_STATE = 0
_START_TIME = 19
_ENDED = (b"Z", b"X")


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on, which is field 3 in proc(5); None if there
    is no such process. The name before them may contain anything, so it is skipped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    return text.rpartition(b")")[2].split()


def start_time(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; None if it is gone or a zombie. With
    the pid and the boot id it identifies a process uniquely."""
    fields = stat_fields(pid)
    if fields is None or fields[_STATE] in _ENDED:
        return None
    return int(fields[_START_TIME])


def boot_id() -> str:
    """The boot id, which is different after every reboot."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
