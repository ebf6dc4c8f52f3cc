"""The identity of a process: its pid, its start time and the boot it belongs to.

Pids are reused, also after a reboot. A pid file that does not match in all three values belongs to
a process that has ended. Signals go through a pidfd that is opened before the comparison, so a
process that gets the same pid in between is never signalled.
"""

import os
import signal
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from resile.system.processes import boot_id, start_time


@dataclass(frozen=True)
class Identity:
    """A process as recorded in a pid file by `detach`."""

    pid: int
    start_time: int
    boot: str

    def is_running(self) -> bool:
        """Whether exactly this process exists and has not ended."""
        return self.boot == boot_id() and start_time(self.pid) == self.start_time

    def started_at(self) -> datetime:
        """The start time of the process, rounded down to whole seconds."""
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        age = uptime - self.start_time / os.sysconf("SC_CLK_TCK")
        return (datetime.now(timezone.utc) - timedelta(seconds=age)).replace(microsecond=0)

    def send(self, number: signal.Signals) -> bool:
        """Signal the process; return whether it was still running."""
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
    """Parse the content of a pid file; None if it is invalid."""
    parts = note.split()
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return Identity(int(parts[0]), int(parts[1]), parts[2])


def read(pid_file: Path) -> Identity | None:
    """Read a pid file; None if it does not exist or is invalid."""
    try:
        return parse(pid_file.read_text())
    except FileNotFoundError:
        return None
