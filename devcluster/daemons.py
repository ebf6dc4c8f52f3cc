"""The cluster's processes: started detached, known by their notes, stopped by pid and nothing else.

Nothing supervises them. A process that died stays dead until `up` or `start` is called again, which
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
# A wrong flag or a taken port ends a program within this time.
_STANDS_AFTER = 0.3


@dataclass(frozen=True)
class Daemon:
    """A program that stays: how to start it, and where it is noted."""

    name: str
    argv: Sequence[str]
    pid_file: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> Identity | None:
        """The running process, None when it does not run."""
        found = identity.read(self.pid_file)
        return found if found and found.is_running() else None

    def start(self) -> bool:
        """Start it unless it runs; whether it was started."""
        if self.identity():
            return False
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # -I and -S: no site packages, so that this costs milliseconds.
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
        """The running process; DaemonFailed if there is none."""
        found = self.identity()
        if not found:
            raise DaemonFailed(self.name, problem="died", log=self.log)
        return found


def start_all(daemons: Iterable[Daemon]) -> list[Daemon]:
    """Start those that do not run and see that they stand; the ones that were started."""
    started = [daemon for daemon in daemons if daemon.start()]
    if started:
        time.sleep(_STANDS_AFTER)
    for daemon in started:
        daemon.require()
    return started


def stop_all(daemons: Iterable[Daemon]) -> None:
    """SIGKILL all of them and wait until they are gone.

    No part of the cluster needs to be asked first, and one that is still on its way out when `up`
    is called would be taken for running.
    """
    running = [(daemon, found) for daemon in daemons if (found := daemon.identity())]
    for _, found in running:
        found.send(signal.SIGKILL)
    if not holds_within(_GONE_WITHIN, lambda: not any(found.is_running() for _, found in running)):
        daemon = next(daemon for daemon, found in running if found.is_running())
        raise DaemonFailed(daemon.name, problem="survives SIGKILL", log=daemon.log)
