"""Starts the job's master where there is none, as a process of its own that outlives its agent.

Any agent on the endpoint's machine may start it, at the beginning or when it has died; its store
and its port ensure that only one runs. It exits by itself when the job is over.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.launch.master_process import MasterFailed, PortInUse, launch_master, master_command
from resile.launch.state_dir import private_folder
from resile.wire.auth import TOKEN_VARIABLE
from resile.wire.endpoint import Endpoint
from resile.wire.errors import AddressInUse, RefusedByPeer

log = logging.getLogger("resile.agent")


class MasterLauncher:
    """Starts this job's master on this machine."""

    def __init__(
        self,
        endpoint: Endpoint,
        folder: Path,
        *,
        run_id: str,
        elasticity: Elasticity | None,
        token: str,
    ) -> None:
        """``elasticity``: the main group's; None if this agent belongs to another group."""
        self._endpoint = endpoint
        self._folder = folder
        self._run_id = run_id
        self._elasticity = elasticity
        self._token = token

    async def start(self) -> Endpoint:
        """Start a master and return its endpoint. Raises :class:`MasterFailed`."""
        private_folder(self._folder)
        process, endpoint = await launch_master(
            self._command(),
            log=self._folder / "master.log",
            environment={**os.environ, TOKEN_VARIABLE: self._token},
        )
        log.debug("started a master (pid %d) at %s", process.pid, endpoint)
        return endpoint

    async def start_if_absent(self) -> str:
        """Start a master; return why that failed. Raises RefusedByPeer if a retry cannot help.

        Another agent may have been faster: then the store is locked, and its master answers soon.
        Raises AddressInUse if the port is taken, most likely by another program.
        """
        try:
            endpoint = await self.start()
        except PortInUse as error:
            raise AddressInUse(str(error)) from None
        except MasterFailed as error:
            if error.final:
                raise RefusedByPeer(str(error), final=True) from None
            log.debug("%s", error)
            return str(error)
        log.info("started the job's master at %s", endpoint)
        return ""

    def _command(self) -> list[str]:
        command = master_command(self._endpoint, run_id=self._run_id, elasticity=self._elasticity)
        return [*command, "--run-folder", str(self._folder)]
