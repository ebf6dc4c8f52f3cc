"""Options that several commands have, and types with the bounds of manifests (``job.limits``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from resile.groupname import is_group
from resile.job.limits import LONGEST_SECONDS, MOST_NODES, MOST_RESTARTS

__all__ = [
    "COUNT",
    "GROUP",
    "NODE_RANK",
    "NODE_UNIT",
    "PORT",
    "RESTARTS",
    "ROUND",
    "SECONDS",
    "GroupName",
    "Seconds",
    "output_option",
]

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A duration. Unlike click's own range it refuses ``nan``, which no comparison can order."""

    def __init__(self, *, above_zero: bool = False) -> None:
        super().__init__(0.0, LONGEST_SECONDS, min_open=above_zero)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of seconds."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


class GroupName(click.types.StringParamType):
    """A group of a job; empty for the main one."""

    name = "group"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name."""
        group = str(super().convert(value, param, ctx))
        if group and not is_group(group):
            self.fail(f"'{group}' is not a group's name, such as evaluate or ps/0.", param, ctx)
        return group


GROUP = GroupName()
RESTARTS = click.IntRange(0, MOST_RESTARTS)
NODE_UNIT = click.IntRange(1, MOST_NODES)
NODE_RANK = click.IntRange(0, MOST_NODES - 1)
SECONDS = Seconds()
PORT = click.IntRange(0, 65535)
ROUND = COUNT = click.IntRange(0, 2**53)
"""Up to the largest number that is exact in every JSON reader."""


def output_option(*forms: str, help: str | None = None) -> Callable[[F], F]:
    """``--output``, ``-o``: one of ``forms``, the first unless another is asked for."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=help,
    )
