"""Starting a master as a process of its own: its command line, and how it says that it listens.

Two do so: an agent on the endpoint's machine (``agent/keeper.py``), and the local platform for a
whole job. A job's master must have one keeper only: two would start it over different stores.
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
"""A master listens within half a second; a very busy machine gets more."""

KEPT_VARIABLE = "RESILE_MASTER_KEPT"
"""Set for nodes whose master is started again by somebody else when it dies: not theirs to do."""

AFTER_ROUND_VARIABLE = "RESILE_AFTER_ROUND"
"""Tells a master how far the job had come under one whose memory is lost."""


OTHER_JOB_EXIT = 3
"""The exit code of a master whose store holds another job, which is not over."""

PORT_IN_USE_EXIT = 98
"""Exit code of a master that was started by a program and finds its port taken (EADDRINUSE)."""


class MasterFailed(Exception):
    """The master cannot be started or ended before it listened; the text says why.

    ``final``: it would be the same next time.
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

    Called from the main thread only: a master told of its parent ends with the thread that made it.
    """
    process, announced = _spawn(command, log, environment)
    try:
        endpoint = await asyncio.wait_for(
            asyncio.to_thread(_read_announcement, announced), START_TIMEOUT
        )
    except asyncio.TimeoutError:
        process.kill()
        raise MasterFailed(f"the master did not listen within {START_TIMEOUT:g} s") from None
    if endpoint is None:
        code = await asyncio.to_thread(process.wait)
        if code == PORT_IN_USE_EXIT:
            raise PortInUse(_last_line(log))
        raise MasterFailed(_last_line(log), final=code == OTHER_JOB_EXIT)
    return process, endpoint


def _spawn(
    command: list[str], log: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and a pipe on which it says where it listens."""
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
    """The argv of a job's master. ``elasticity``: its main group's; None: the agents say."""
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
    """All that ``--nnodes`` and ``--max-restarts`` do not say, as ``--rdzv-conf`` takes it."""
    said = {"min_nodes", "max_nodes", "max_restarts"}
    seldom = {ROLES, *WORDS}
    usual = Elasticity()
    names = [name for name in Elasticity.__struct_fields__ if name not in said]
    # A master of an older version passes over a key that it does not know, and says so.
    differing = [n for n in names if n not in seldom or getattr(elasticity, n) != getattr(usual, n)]
    differing.sort(key=lambda name: name in seldom)
    return ",".join(f"{name}={write_setting(getattr(elasticity, name))}" for name in differing)


def _read_announcement(descriptor: int) -> Endpoint | None:
    """Wait for a new master's word; None if it ended without one. Closes the descriptor."""
    with open(descriptor) as pipe:
        host, _, port = pipe.read().strip().rpartition(" ")
    return Endpoint(host, int(port)) if port else None


def _last_line(log: Path) -> str:
    """Why a master that did not come to listen ended, in its own words."""
    lines = log.read_text(errors="replace").splitlines()
    said = lines[-1] if lines else "it said nothing"
    return f"the master could not start: {said.removeprefix('Error: ')}"
