"""The live view of `resile up` on a terminal: the job, its nodes, and its events with reasons.

Redrawn a few times a second from the job's view, for the terminal's current size: in a small
terminal nodes and events share the available lines. Node output goes to the logs, not here, so
nothing garbles the view. Terminals differ in what they do with drawn lines when resized, so the
screen is cleared then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from contextlib import suppress

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from resile.cli.output.format import age, clock, progress_facts
from resile.cli.output.tables import event_line, new_console, nodes_table, phase_text
from resile.job.throughput import Throughput
from resile.job.view import JobView
from resile.local.runner import JobRunner
from resile.wire.views import EventView

__all__ = ["LiveView"]

INTERVAL = 0.25
EVENTS = 10
"""Number of latest events shown: as many as fit below the nodes on a usual terminal."""

FRAME = 5
"""Lines besides progress, nodes and events: the heading, the names of columns, two empty lines, and
the cursor's own."""


class LiveView:
    """Draws the job until cancelled; the last frame stays on the screen."""

    def __init__(self, name: str, *, console: Console | None = None) -> None:
        self._name = name
        self._console = console or new_console()
        self._events: deque[EventView] = deque(maxlen=EVENTS)
        self._rate = Throughput()

    def tell(self, events: list[EventView]) -> None:
        """Add new events."""
        self._events.extend(events)

    async def run(self, job: JobRunner) -> None:
        """Draw the job repeatedly."""
        logging.getLogger("resile").handlers[:] = [_ToEvents(self._events)]
        self._measure()
        live, size = self._begun(), self._console.size
        try:
            while True:
                view = await job.view()
                self._measure()
                if self._console.size != size:
                    live.stop()
                    self._console.clear()
                    live, size = self._begun(), self._console.size
                live.update(self.draw(view), refresh=True)
                await asyncio.sleep(INTERVAL)
        finally:
            live.update(self.draw(await job.view()), refresh=True)
            live.stop()

    def _measure(self) -> None:
        """Ask the terminal for its size: $COLUMNS and $LINES, if exported by a parent process, may
        be outdated."""
        with suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self._console.file.fileno())
            if columns and lines:
                self._console.size = ConsoleDimensions(columns, lines)

    def _begun(self) -> Live:
        live = Live(console=self._console, auto_refresh=False, transient=False)
        live.start()
        return live

    def draw(self, view: JobView | None) -> Group:
        """Return one frame, no larger than the terminal."""
        if view is None or not view.phase:
            return Group(Text(f"job {self._name}: starting"))
        progress = self._progress(view)
        room = max(2, self._console.height - FRAME - len(progress))
        nodes = min(len(view.nodes), max(1, room - min(len(self._events), room // 2)))
        shown = max(0, min(len(self._events), room - nodes))
        lines = [event_line(event, when=clock(event.time)) for event in self._events]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(
            self._heading(view),
            *progress,
            Text(),
            nodes_table(view, width=self._console.width, most=nodes),
            Text(),
            *lines[len(lines) - shown :],
        )

    def _heading(self, view: JobView) -> Text:
        heading = Text("job ", no_wrap=True, overflow="ellipsis")
        heading.append(self._name, style="bold").append("  ")
        heading.append_text(phase_text("Deleting" if view.deleting else view.phase))
        heading.append(f"  {age(view.created)}", style="dim")
        return heading.append(f"  {view.message}", style="dim")

    def _progress(self, view: JobView) -> list[Text]:
        seen = view.training
        if seen is None or not seen.round:
            return [Text("no round yet", style="dim")]
        parts = [f"round {seen.round} {seen.phase}", f"world size {seen.world_size}"]
        rate = self._rate.at(seen.step, time.monotonic())
        parts += progress_facts(view, rate=rate if seen.phase == "running" else None)
        return [Text(line, no_wrap=True) for line in _folded(parts, self._console.width)]


def _folded(parts: list[str], width: int) -> list[str]:
    """Join the parts into as few lines as possible, without breaking a part."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}  {part}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


class _ToEvents(logging.Handler):
    """Shows Resile's own log lines among the events: nothing else may write to the screen."""

    def __init__(self, events: deque[EventView]) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        event = EventView(
            seq=0, time=record.created, kind=record.levelname.title(), text=record.getMessage()
        )
        self._events.append(event)
