"""A master where there is none: started as a process of its own that outlives its agent.

Any agent on the endpoint's machine may start it, at the beginning or when it has died; the store
and the port see to it that only one lives. It ends with the job by itself.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.wire.auth import TOKEN_VARIABLE
from resile.wire.endpoint import Endpoint
from resile.wire.errors import AddressInUse, RefusedByPeer
from resile.wire.launching import MasterFailed, PortInUse, launch_master, master_command
from resile.wire.statedir import private_folder

log = logging.getLogger("resile.agent")


class MasterKeeper:
    """Knows how to start this job's master on this machine."""

    def __init__(
        self,
        endpoint: Endpoint,
        folder: Path,
        *,
        run_id: str,
        elasticity: Elasticity | None,
        token: str,
    ) -> None:
        """``elasticity``: the main group's; None where this agent is of another."""
        self._endpoint = endpoint
        self._folder = folder
        self._run_id = run_id
        self._elasticity = elasticity
        self._token = token

    async def start(self) -> Endpoint:
        """Start a master and return where it listens; raises :class:`MasterFailed`."""
        private_folder(self._folder)
        process, endpoint = await launch_master(
            self._command(),
            log=self._folder / "master.log",
            environment={**os.environ, TOKEN_VARIABLE: self._token},
        )
        log.debug("started a master (pid %d) at %s", process.pid, endpoint)
        return endpoint

    async def revive(self) -> str:
        """Start a master; returns why that failed, and raises RefusedByPeer if it always will.

        Another agent may have been quicker: then the store is taken, and in a moment the master
        answers. Raises AddressInUse if it is the port that is taken: by another program, most
        likely.
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
