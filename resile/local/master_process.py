"""A job's master as a child process: restarted at once when it dies, and never outlives us.

The first start takes any free port; every restart the same port and the same store, so that nodes
and commands find it where it was. The kernel kills it if this process is killed.
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
from resile.launch.master_process import MasterFailed, launch_master, master_command
from resile.wire.endpoint import Endpoint

__all__ = ["MasterProcess"]

log = logging.getLogger("resile.up")

FIRST_RETRY, LAST_RETRY = 0.1, 1.0
GIVE_UP_AFTER = 60.0
"""Seconds of failed restarts after which the master is given up: its port or store is lost."""

STOP_TIMEOUT = 5.0
"""Seconds. On SIGTERM a master closes its connections, which takes a second at most."""


class MasterProcess:
    """A job's master process: :meth:`start` it, :meth:`keep` it running, :meth:`stop` it."""

    def __init__(
        self,
        folder: Path,
        *,
        job: str,
        elasticity: Elasticity,
        environment: Mapping[str, str],
    ) -> None:
        """``folder``: the job's, which holds the token, the store and the log."""
        self.endpoint = Endpoint("127.0.0.1", 0)
        """The address it listens on; the port is known after the first start."""
        self.restarts = 0
        self._folder = folder
        self._job = job
        self._elasticity = elasticity
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Endpoint:
        """Start it and return the address it listens on; raises :class:`MasterFailed`."""
        self._process, self.endpoint = await launch_master(
            self._command(), log=self._folder / "master.log", environment=self._environment
        )
        return self.endpoint

    async def keep(self, *, restarted: Callable[[], None]) -> None:
        """Restart it whenever it ends, and call ``restarted`` when it listens; raises
        :class:`MasterFailed` if it cannot be restarted for ``GIVE_UP_AFTER`` seconds."""
        while True:
            code = await self._ended()
            self.restarts += 1
            log.debug("the master exited with %s: restarting it", code)
            await self._start_again()
            restarted()

    async def stop(self) -> None:
        """Terminate it, and kill it after a timeout. Cancel :meth:`keep` before."""
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
        """Wait for its exit code. A pidfd notifies at once and needs no thread."""
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
        """Its pid, if it was started."""
        return None if self._process is None else self._process.pid
