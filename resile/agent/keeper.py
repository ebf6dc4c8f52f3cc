"""A master where there is none: started as a process of its own that outlives its agent.

Any agent on the endpoint's machine may start it, at the beginning or when it has died; the store
and the port see to it that only one lives. It ends with the job by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.wire.auth import TOKEN_VARIABLE
from resile.wire.endpoint import Endpoint
from resile.wire.launching import last_line, master_command, read_announcement
from resile.wire.statedir import private_folder

log = logging.getLogger("resile.agent")

START_TIMEOUT = 30.0
"""A master listens within half a second; a very busy machine gets more."""


class MasterFailed(Exception):
    """The master process ended before it listened; the text is its own last line."""


class MasterKeeper:
    """Knows how to start this job's master on this machine."""

    def __init__(
        self,
        endpoint: Endpoint,
        folder: Path,
        *,
        run_id: str,
        elasticity: Elasticity,
        token: str,
    ) -> None:
        self._endpoint = endpoint
        self._folder = folder
        self._run_id = run_id
        self._elasticity = elasticity
        self._token = token

    async def start(self) -> Endpoint:
        """Start a master and return where it listens; raises :class:`MasterFailed`."""
        process, announced = self._spawn()
        loop = asyncio.get_running_loop()
        try:
            endpoint = await asyncio.wait_for(
                loop.run_in_executor(None, read_announcement, announced), START_TIMEOUT
            )
        except asyncio.TimeoutError:
            process.kill()
            raise MasterFailed(f"the master did not listen within {START_TIMEOUT:g} s") from None
        if endpoint is None:
            process.wait()
            raise MasterFailed(last_line(self._folder / "master.log"))
        log.debug("started a master (pid %d) at %s", process.pid, endpoint)
        return endpoint

    async def revive(self) -> str:
        """Start a master; returns why that failed.

        Another agent may have been quicker: then the port or the store is taken.
        """
        try:
            endpoint = await self.start()
        except MasterFailed as error:
            log.debug("%s", error)
            return str(error)
        log.info("started the job's master at %s", endpoint)
        return ""

    def _spawn(self) -> tuple[subprocess.Popen[bytes], int]:
        """The process, and a pipe on which it says where it listens."""
        private_folder(self._folder)
        read, write = os.pipe()
        try:
            with open(self._folder / "master.log", "ab") as output:
                process = subprocess.Popen(
                    self._command(write),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(write,),
                    start_new_session=True,
                    env={**os.environ, TOKEN_VARIABLE: self._token},
                )
        finally:
            os.close(write)
        return process, read

    def _command(self, announce: int) -> list[str]:
        command = master_command(
            self._endpoint, run_id=self._run_id, elasticity=self._elasticity, announce=announce
        )
        return [*command, "--run-folder", str(self._folder)]
