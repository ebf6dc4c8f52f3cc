"""`resile run --preload check`: print how warm workers of a script differ from cold ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from resile.agent.nursery import CheckFailed, WorkerCommand, check_preload
from resile.wire.endpoint import free_port

DIFFERENT = 1
"""The exit code if there are differences."""


async def preload_check(command: WorkerCommand, *, env: Mapping[str, str]) -> int:
    """Run the script four times and print what differs; return the exit code."""
    try:
        result = await check_preload(command, env=env, cwd=str(Path.cwd()), port=free_port())
    except CheckFailed as error:
        raise click.ClickException(f"--preload check: {error}") from None
    if result.why_cold:
        click.echo(f"Workers of this script start cold: {result.why_cold}.")
        return os.EX_OK
    for difference in result.differences:
        click.echo(str(difference))
    if result.differences:
        count = len(result.differences)
        click.echo(f"{count} difference{'s' * (count > 1)}. `--preload none` avoids all of them.")
        return DIFFERENT
    click.echo("Warm workers of this script do not differ from cold ones.")
    return os.EX_OK
