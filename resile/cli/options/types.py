"""Options that several commands share, and option types with the limits of manifests.

``--verbose`` and ``--quiet`` set how much of Resile's own log is shown; they may be given after
``resile`` or after the command.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from resile.group_name import is_group
from resile.job.limits import MAX_NODES, MAX_RESTARTS, MAX_SECONDS

__all__ = [
    "COUNT",
    "GROUP",
    "GroupName",
    "LEVEL_VARIABLE",
    "NODE_RANK",
    "NODE_UNIT",
    "PORT",
    "RESTARTS",
    "ROUND",
    "SECONDS",
    "Seconds",
    "output_option",
    "verbosity_options",
]


F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A duration. Unlike click's own range it refuses ``nan``, which no comparison can order."""

    def __init__(self, *, above_zero: bool = False) -> None:
        super().__init__(0.0, MAX_SECONDS, min_open=above_zero)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


class GroupName(click.types.StringParamType):
    """A group of a job; empty for the main one."""

    name = "group"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        group = str(super().convert(value, param, ctx))
        if group and not is_group(group):
            self.fail(f"'{group}' is not a group's name, such as evaluate or ps/0.", param, ctx)
        return group


GROUP = GroupName()
RESTARTS = click.IntRange(0, MAX_RESTARTS)
NODE_UNIT = click.IntRange(1, MAX_NODES)
NODE_RANK = click.IntRange(0, MAX_NODES - 1)
SECONDS = Seconds()
PORT = click.IntRange(0, 65535)
ROUND = COUNT = click.IntRange(0, 2**53)
"""Up to the largest number that is exact in every JSON reader."""


def output_option(*forms: str, help: str | None = None) -> Callable[[F], F]:
    """Return the option ``--output``, ``-o``: one of ``forms``, by default the first."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=help,
    )


LEVEL_VARIABLE = "RESILE_LOG"

LEVELS = {"verbose": "debug", "quiet": "warning"}


def verbosity_options(function: F) -> F:
    """Add the two options to a command or group."""
    verbose = click.option(
        "--verbose",
        "-v",
        is_flag=True,
        expose_value=False,
        callback=_set_level,
        help="Log details, as RESILE_LOG=debug does.",
    )
    quiet = click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        callback=_set_level,
        help="Log warnings and errors only, as RESILE_LOG=warning does.",
    )
    return verbose(quiet(function))


def _set_level(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if not given:
        return
    asked = ctx.find_root().meta.setdefault(__name__, param.name)
    if asked != param.name:
        raise click.UsageError("--verbose and --quiet exclude each other", ctx)
    os.environ[LEVEL_VARIABLE] = LEVELS[str(param.name)]
