"""Launching a master as a process: its command line, and how it announces that it listens.

There are two callers: an agent on the endpoint's machine (``resile/agent/master_launcher.py``), and
the local platform for a whole job. Only one process may launch a job's master: two would start it
with different stores.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.job.rendezvous_conf import ROLES, WORDS, write_setting
from resile.wire.endpoint import Endpoint

__all__ = [
    "AFTER_ROUND_VARIABLE",
    "KEPT_VARIABLE",
    "OTHER_JOB_EXIT",
    "PORT_IN_USE_EXIT",
    "MasterFailed",
    "PortInUse",
    "conf_text",
    "launch_master",
    "master_command",
]

START_TIMEOUT = 30.0
"""Seconds. A master listens within half a second; on a busy machine it takes longer."""

KEPT_VARIABLE = "RESILE_MASTER_KEPT"
"""Set for nodes whose master is restarted by another process, so that they do not start one."""

AFTER_ROUND_VARIABLE = "RESILE_AFTER_ROUND"
"""The round that the job had reached under a master whose state is lost."""

OTHER_JOB_EXIT = 3
"""Exit code of a master whose store holds another job that is not over."""

PORT_IN_USE_EXIT = 98
"""Exit code of a launched master that finds its port in use (EADDRINUSE)."""


class MasterFailed(Exception):
    """The master cannot be started, or exited before it listened; the text says why.

    ``final``: a retry would fail in the same way.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class PortInUse(MasterFailed):
    """Another program has the master's address."""


async def launch_master(
    command: list[str], *, log: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], Endpoint]:
    """Start a master and wait until it listens; raises :class:`MasterFailed`.

    Call it from the main thread only: a master that is bound to its parent ends with the thread
    that started it.
    """
    process, announced = _spawn(command, log, environment)
    try:
        endpoint = await asyncio.wait_for(
            asyncio.to_thread(_read_announcement, announced), START_TIMEOUT
        )
    except asyncio.TimeoutError:
        process.kill()
        raise MasterFailed(
            f"the master did not start listening within {START_TIMEOUT:g} s"
        ) from None
    if endpoint is None:
        code = await asyncio.to_thread(process.wait)
        if code == PORT_IN_USE_EXIT:
            raise PortInUse(_last_line(log))
        raise MasterFailed(_last_line(log), final=code == OTHER_JOB_EXIT)
    return process, endpoint


def _spawn(
    command: list[str], log: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the process; return it and a pipe on which it announces its endpoint."""
    read, write = os.pipe()
    try:
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [*command, "--announce-fd", str(write)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(write,),
                start_new_session=True,
                env=environment,
            )
    except OSError as error:
        os.close(read)
        raise MasterFailed(f"the master cannot be started: {error.strerror}") from None
    finally:
        os.close(write)
    return process, read


def master_command(endpoint: Endpoint, *, run_id: str, elasticity: Elasticity | None) -> list[str]:
    """Return the argv of a master. ``elasticity``: of its main group; None: taken from agents."""
    command = [
        *(sys.executable, "-m", "resile", "master"),
        *("--endpoint", str(endpoint)),
        *("--job", run_id),
    ]
    if elasticity is None:
        return command
    return [
        *command,
        *("--nnodes", f"{elasticity.min_nodes}:{elasticity.max_nodes}"),
        *("--max-restarts", str(elasticity.max_restarts)),
        *("--rdzv-conf", conf_text(elasticity)),
    ]


def conf_text(elasticity: Elasticity) -> str:
    """Return the settings beside ``--nnodes`` and ``--max-restarts`` in the form of --rdzv-conf."""
    said = {"min_nodes", "max_nodes", "max_restarts"}
    seldom = {ROLES, *WORDS}
    usual = Elasticity()
    names = [name for name in Elasticity.__struct_fields__ if name not in said]
    # A master of an older version ignores a key that it does not know, with a warning.
    differing = [n for n in names if n not in seldom or getattr(elasticity, n) != getattr(usual, n)]
    differing.sort(key=lambda name: name in seldom)
    return ",".join(f"{name}={write_setting(getattr(elasticity, name))}" for name in differing)


def _read_announcement(descriptor: int) -> Endpoint | None:
    """Wait for a new master's endpoint; None if it exited without one. Closes the descriptor."""
    with open(descriptor) as pipe:
        host, _, port = pipe.read().strip().rpartition(" ")
    return Endpoint(host, int(port)) if port else None


def _last_line(log: Path) -> str:
    """Return the last line that a failed master logged."""
    lines = log.read_text(errors="replace").splitlines()
    said = lines[-1] if lines else "it logged nothing"
    return f"the master could not start: {said.removeprefix('Error: ')}"
