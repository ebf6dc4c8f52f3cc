"""The cluster's processes: started detached, identified by pid files, and stopped only by pid.

Nothing supervises them. A process that died is not restarted until `up` or `start` is called, which
is what tests of failures need.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import identity
from devcluster.commands import PLAIN_ENVIRONMENT
from devcluster.errors import DaemonFailed
from devcluster.identity import Identity
from devcluster.waiting import holds_within

_DETACH = Path(__file__).with_name("detach.py")

_GONE_WITHIN = 10.0
# A program with a wrong flag or a port in use exits within this time.
_STANDS_AFTER = 0.3


@dataclass(frozen=True)
class Daemon:
    """A long-running program: its command line, pid file and log."""

    name: str
    argv: Sequence[str]
    pid_file: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> Identity | None:
        """The running process; None if it is not running."""
        found = identity.read(self.pid_file)
        return found if found and found.is_running() else None

    def start(self) -> bool:
        """Start it unless it is running; return whether it was started."""
        if self.identity():
            return False
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # -I and -S: no site packages, so that this takes milliseconds.
        detach = (sys.executable, "-I", "-S", str(_DETACH), str(self.pid_file), *self.argv)
        with self.log.open("ab") as output:
            subprocess.run(
                detach,
                env={**PLAIN_ENVIRONMENT, **self.env},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
        return True

    def require(self) -> Identity:
        """Return the running process; DaemonFailed if there is none."""
        found = self.identity()
        if not found:
            raise DaemonFailed(self.name, problem="died", log=self.log)
        return found


def start_all(daemons: Iterable[Daemon]) -> list[Daemon]:
    """Start those that are not running, check that they stay up, and return them."""
    started = [daemon for daemon in daemons if daemon.start()]
    if started:
        time.sleep(_STANDS_AFTER)
    for daemon in started:
        daemon.require()
    return started


def stop_all(daemons: Iterable[Daemon]) -> None:
    """SIGKILL all of them and wait until they are gone.

    No component needs a graceful stop, and one that is still exiting when `up` is called would be
    mistaken for a running one.
    """
    running = [(daemon, found) for daemon in daemons if (found := daemon.identity())]
    for _, found in running:
        found.send(signal.SIGKILL)
    if not holds_within(_GONE_WITHIN, lambda: not any(found.is_running() for _, found in running)):
        daemon = next(daemon for daemon, found in running if found.is_running())
        raise DaemonFailed(daemon.name, problem="survives SIGKILL", log=daemon.log)
