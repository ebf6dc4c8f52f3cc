"""`resile up` without a terminal: a line for each event, and the nodes' output between them."""

from __future__ import annotations

import asyncio
import contextlib

import click

from resile.cli.output.format import clock
from resile.cli.output.log_follower import LogFollower
from resile.local.jobdir import JobDir
from resile.local.runner import JobRunner
from resile.wire.views import EventView

__all__ = ["PlainView"]

POLL = 0.1


class PlainView:
    """Prints until cancelled, and then what is left."""

    def __init__(self, folder: JobDir) -> None:
        self._follower = LogFollower(folder)

    def tell(self, events: list[EventView]) -> None:
        """Print new events."""
        self._output()
        for event in events:
            _print(f"{clock(event.time)}  {event.kind:<18} {event.text}")

    async def run(self, _job: JobRunner) -> None:
        """Print output as it is written."""
        try:
            while True:
                await asyncio.sleep(POLL)
                self._output()
        finally:
            self._output()
            for node, line in self._follower.rests():
                _print(f"[{node}] {line}")

    def _output(self) -> None:
        for node, line in self._follower.lines():
            _print(f"[{node}] {line}")


def _print(line: str) -> None:
    """Print a line; ignore a console that is gone (a closed pipe), which must not end the job."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(line)
