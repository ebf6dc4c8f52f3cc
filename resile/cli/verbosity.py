"""``--verbose`` and ``--quiet``: how much of our own log is shown.

They set RESILE_LOG, which the processes that a command starts inherit. So they mean the same before
the command's name and after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["LEVEL_VARIABLE", "verbosity_options"]

F = TypeVar("F", bound=Callable[..., Any])

LEVEL_VARIABLE = "RESILE_LOG"

LEVELS = {"verbose": "debug", "quiet": "warning"}


def verbosity_options(function: F) -> F:
    """Adds the two options to a command or group."""
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
