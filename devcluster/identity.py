"""Who a process is, beyond its pid: its start time, in the boot it belongs to.

Pids are used again, also after a reboot. A note that does not match in all three values speaks of a
process that is gone. Signals go through a pidfd that is opened before the comparison, so a process
that takes over the pid in between is never hit.
"""

import os
import signal
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from resile.system.processes import boot_id, start_time


@dataclass(frozen=True)
class Identity:
    """A process as `detach` noted it."""

    pid: int
    start_time: int
    boot: str

    def is_running(self) -> bool:
        """Whether this very process exists and has not ended."""
        return self.boot == boot_id() and start_time(self.pid) == self.start_time

    def started_at(self) -> datetime:
        """When it was started, in whole seconds, rounded down."""
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        age = uptime - self.start_time / os.sysconf("SC_CLK_TCK")
        return (datetime.now(timezone.utc) - timedelta(seconds=age)).replace(microsecond=0)

    def send(self, number: signal.Signals) -> bool:
        """Signal the process; whether it was still there."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_running():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def parse(note: str) -> Identity | None:
    """What a pid file says; None when it is no such note."""
    parts = note.split()
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return Identity(int(parts[0]), int(parts[1]), parts[2])


def read(pid_file: Path) -> Identity | None:
    """What a pid file says; None when there is none."""
    try:
        return parse(pid_file.read_text())
    except FileNotFoundError:
        return None
