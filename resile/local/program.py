"""The program of a node on this machine: its command line and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from resile.control.actions import StartNode
from resile.group_name import GROUP_VARIABLE
from resile.job.addresses import ADDRESSES_VARIABLE, HOST_VARIABLE, PORT_PREFIX
from resile.local.supervisor.process import Program
from resile.wire.auth import TOKEN_VARIABLE

__all__ = ["NoCommandError", "program_of"]

_OURS = "resile"
_OF_ANOTHER_JOB = (
    "PET_",
    "RESILE_NODE_",
    ADDRESSES_VARIABLE,
    GROUP_VARIABLE,
    HOST_VARIABLE,
    PORT_PREFIX,
)


class NoCommandError(Exception):
    """The role leaves the command to its container image, which is not used on this machine."""


def program_of(
    order: StartNode, *, logs: Path, environment: Mapping[str, str], cgroups: list[Path]
) -> Program:
    """Return the program of a node. Raises NoCommandError if there is nothing to run."""
    if not order.command:
        raise NoCommandError(
            f"role {order.node.role} has neither command nor script nor module, "
            "and container images are not used on this machine"
        )
    return Program(
        name=order.node.name,
        argv=_argv(order.command),
        env={**_inherited(), **environment, **order.env, **_identity(order)},
        cwd=str(Path(order.working_dir or ".").absolute()),
        log=logs / f"{order.node.name}.log",
        grace=order.grace_seconds,
        cgroups=cgroups,
    )


def _argv(command: tuple[str, ...]) -> list[str]:
    """Return the command line; ``resile`` means this installation, whatever is on the PATH."""
    if command[0] == _OURS:
        return [sys.executable, "-m", _OURS, *command[1:]]
    return list(command)


def _inherited() -> dict[str, str]:
    """Return our own environment, without the variables of a job that we may be part of."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OF_ANOTHER_JOB) and name != TOKEN_VARIABLE
    }


def _identity(order: StartNode) -> dict[str, str]:
    return {
        "RESILE_NODE_NAME": order.node.name,
        "RESILE_NODE_RANK": str(order.node.rank),
        "RESILE_NODE_ID": str(order.node.id),
        "RESILE_ROLE": order.node.role,
        GROUP_VARIABLE: order.group,
    }
