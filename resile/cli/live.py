"""The live view of `resile up` on a terminal: the job, its nodes, and what happened and why.

Drawn anew a few times a second from the job's picture. Node output goes to the logs, not here, so
nothing garbles it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from resile.cli.amounts import age, clock
from resile.cli.tables import event_line, new_console, nodes_table, phase_text
from resile.platform.local.localjob import LocalJob
from resile.wire.throughput import Throughput
from resile.wire.views import EventView, JobPicture

__all__ = ["LiveView"]

INTERVAL = 0.25
EVENTS = 10
"""What happened last: as much as fits below the nodes on a usual terminal."""

FRAME = 8
"""Lines besides nodes and events."""


class LiveView:
    """Draws until it is cancelled; the last frame stays on the screen."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._console: Console = new_console()
        self._events: deque[EventView] = deque(maxlen=EVENTS)
        self._rate = Throughput()

    def tell(self, events: list[EventView]) -> None:
        """Something happened."""
        self._events.extend(events)

    async def run(self, job: LocalJob) -> None:
        """Draw the job again and again."""
        logging.getLogger("resile").handlers[:] = [_ToEvents(self._events)]
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            try:
                while True:
                    live.update(self._draw(await job.picture()), refresh=True)
                    await asyncio.sleep(INTERVAL)
            finally:
                live.update(self._draw(await job.picture()), refresh=True)

    def _draw(self, picture: JobPicture | None) -> Group:
        if picture is None:
            return Group(Text(f"job {self._name}: starting"))
        room = max(3, self._console.height - FRAME - len(self._events))
        lines = [event_line(event, when=clock(event.time)) for event in self._events]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(
            self._heading(picture),
            self._progress(picture),
            Text(),
            nodes_table(picture, width=self._console.width, most=room),
            Text(),
            *lines,
        )

    def _heading(self, picture: JobPicture) -> Text:
        heading = Text("job ", no_wrap=True, overflow="ellipsis")
        heading.append(self._name, style="bold").append("  ")
        heading.append_text(phase_text("Deleting" if picture.deleting else picture.phase))
        heading.append(f"  {age(picture.created)}", style="dim")
        return heading.append(f"  {picture.message}", style="dim")

    def _progress(self, picture: JobPicture) -> Text:
        seen = picture.training
        if seen is None or not seen.round:
            return Text("no round yet", style="dim")
        parts = [f"round {seen.round} {seen.phase}", f"world size {seen.world_size}"]
        if seen.step is not None:
            parts.append(f"step {seen.step}")
            rate = self._rate.at(seen.step, time.monotonic())
            if rate is not None and seen.phase == "running":
                parts.append(f"{rate:.1f} steps/s")
        return Text("  ".join(parts))


class _ToEvents(logging.Handler):
    """Our own log lines appear among the events: nothing else may write to the screen."""

    def __init__(self, events: deque[EventView]) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        event = EventView(
            seq=0, time=record.created, kind=record.levelname.title(), text=record.getMessage()
        )
        self._events.append(event)
