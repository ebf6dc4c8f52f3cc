"""--verbose and --quiet, before a command's name and after it."""

from __future__ import annotations

import os

import click
import pytest
from click.testing import CliRunner

from resile.cli.options.types import LEVEL_VARIABLE, verbosity_options


@click.group()
@verbosity_options
def group() -> None:
    """Some commands."""


@group.command()
@verbosity_options
def work() -> None:
    """Print the setting."""
    click.echo(os.environ.get(LEVEL_VARIABLE, "unset"))


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "info")


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["work"], "info"),
        (["--verbose", "work"], "debug"),
        (["work", "-v"], "debug"),
        (["-q", "work"], "warning"),
        (["work", "--quiet"], "warning"),
        (["-v", "work", "-v"], "debug"),
    ],
)
def test_the_level_is_set_for_the_command_and_its_children(words: list[str], level: str) -> None:
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 0
    assert result.output.strip() == level


@pytest.mark.parametrize("words", [["-v", "-q", "work"], ["-v", "work", "-q"], ["work", "-vq"]])
def test_both_at_once_are_a_mistake(words: list[str]) -> None:
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 2
    assert "--verbose and --quiet exclude each other" in result.output
