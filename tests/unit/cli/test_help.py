"""The `--help` text of each command."""

from __future__ import annotations

import click
import pytest

from resile.cli.main import cli

ON_JOBS = ("submit", "jobs", "describe", "logs", "scale", "get", "delete", "operator")


@pytest.mark.parametrize("name", ON_JOBS)
def test_each_flag_says_what_it_is_for(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    flags = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert [one.name for one in flags if not one.help] == []
