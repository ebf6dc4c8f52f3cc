"""Processes: start time, exit status, and file locks as a sign of life.

The start time tells apart processes of the same pid. Exit statuses are described in the same words
in logs, events, reports and errors. The kernel releases a file lock (flock) when its process ends.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

__all__ = [
    "boot_id",
    "describe_exit",
    "is_locked",
    "shell_code",
    "start_time",
    "stat_fields",
]


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


def describe_exit(code: int) -> str:
    """Describe an exit status: "exited with code 3", "was killed by SIGKILL (code 137)".

    ``code`` is in the convention of subprocess: -n for signal n.
    """
    if code >= 0:
        return f"exited with code {code}"
    return f"was killed by {_signal_name(-code)} (code {shell_code(code)})"


def shell_code(code: int) -> int:
    """The code in the convention of shells and Kubernetes: 128 + n for signal n."""
    return 128 - code if code < 0 else code


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock; False if there is no such file.

    It tries a shared lock, so that two concurrent checks do not mistake each other for the holder.
    """
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
