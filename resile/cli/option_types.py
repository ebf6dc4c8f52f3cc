"""Types of the options that describe a job, with the bounds of manifests (``job.limits``)."""

from __future__ import annotations

import math
from typing import Any

import click

from resile.job.limits import LONGEST_SECONDS, MOST_NODES, MOST_RESTARTS

__all__ = ["COUNT", "NODE_RANK", "NODE_UNIT", "PORT", "RESTARTS", "ROUND", "SECONDS", "Seconds"]


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
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds


RESTARTS = click.IntRange(0, MOST_RESTARTS)
NODE_UNIT = click.IntRange(1, MOST_NODES)
NODE_RANK = click.IntRange(0, MOST_NODES - 1)
SECONDS = Seconds()
PORT = click.IntRange(0, 65535)
ROUND = COUNT = click.IntRange(0, 2**53)
"""Up to the largest number that is exact in every JSON reader."""
