"""A whole job's master as a child process: started again at once when it dies, never outliving us.

The first start takes any free port; every later one the same port and the same store, so that
nodes and commands find it where it was. The kernel ends it should this process be killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.wire.endpoint import Endpoint
from resile.wire.launching import MasterFailed, launch_master, master_command

__all__ = ["MasterProcess"]

log = logging.getLogger("resile.up")

FIRST_RETRY, LAST_RETRY = 0.1, 1.0
GIVE_UP_AFTER = 60.0
"""A master that cannot be started for so long will not be: its port or its store is lost."""

STOP_TIMEOUT = 5.0
"""A master that is asked to go closes its connections, which takes a second at most."""


class MasterProcess:
    """One job's master. :meth:`start` it, :meth:`keep` it, :meth:`stop` it."""

    def __init__(
        self,
        folder: Path,
        *,
        job: str,
        elasticity: Elasticity,
        environment: Mapping[str, str],
    ) -> None:
        """``folder`` is the job's: the token is read there, store and log are written there."""
        self.endpoint = Endpoint("127.0.0.1", 0)
        """Where it listens; the port is known after the first start."""
        self.restarts = 0
        self._folder = folder
        self._job = job
        self._elasticity = elasticity
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Endpoint:
        """Start it and return where it listens; raises :class:`MasterFailed`."""
        self._process, self.endpoint = await launch_master(
            self._command(), log=self._folder / "master.log", environment=self._environment
        )
        return self.endpoint

    async def keep(self, *, restarted: Callable[[], None]) -> None:
        """Start it again whenever it ends, and call ``restarted`` when it listens; raises
        :class:`MasterFailed` when that is hopeless."""
        while True:
            code = await self._ended()
            self.restarts += 1
            log.debug("the master ended with %s: starting it again", code)
            await self._start_again()
            restarted()

    async def stop(self) -> None:
        """Ask it to go, and end it if it does not. Cancel :meth:`keep` before."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def _start_again(self) -> None:
        pause, deadline = FIRST_RETRY, time.monotonic() + GIVE_UP_AFTER
        while True:
            try:
                await self.start()
            except MasterFailed:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY)
            else:
                return

    async def _ended(self) -> int:
        """Its exit code, once it has one. A pidfd tells at once and needs no thread."""
        process = self._process
        if process is None:
            raise RuntimeError("the master was not started")
        over = asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return process.wait()

    def _command(self) -> list[str]:
        command = master_command(self.endpoint, run_id=self._job, elasticity=self._elasticity)
        return [*command, "--job-folder", str(self._folder), "--parent", str(os.getpid())]

    @property
    def pid(self) -> int | None:
        """Its process id, if it was started."""
        return None if self._process is None else self._process.pid
