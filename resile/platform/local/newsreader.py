"""A job's story as it unfolds: a thread that waits at the master for the next event.

It asks for what came after the last event it knows and is answered when there is something, so
news arrives at once and nothing is asked in vain. A master that is away is asked again until it
is back; what was told before is not told again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from resile.wire.errors import WireError
from resile.wire.inquiry import Inquiry
from resile.wire.views import EventView

__all__ = ["NewsReader"]

WAIT = 20.0
"""One question's patience; the end of it costs one empty answer."""

RETRY = 0.1


class NewsReader:
    """Hands events, in order and each once, to ``deliver`` in the event loop's thread."""

    def __init__(self, inquiry: Inquiry, deliver: Callable[[list[EventView]], None]) -> None:
        self._inquiry = inquiry
        self._deliver = deliver
        self._last = 0
        self._loop = asyncio.get_running_loop()
        # A daemon: it may hang in a question when the process ends, and nobody waits for it.
        self._thread = threading.Thread(target=self._read, name="news", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    async def catch_up(self) -> None:
        """Take everything that is there now; for the end, when nothing more will come."""
        try:
            events = await asyncio.to_thread(self._inquiry.events, since=self._last)
        except WireError:
            return
        self._take(events)

    def _read(self) -> None:
        known = 0
        while not self._loop.is_closed():
            try:
                events = self._inquiry.events(since=known, wait=WAIT)
                known = events[-1].seq if events else known
                self._loop.call_soon_threadsafe(self._take, events)
            except WireError:
                time.sleep(RETRY)
            except RuntimeError:
                return  # the loop was closed in between

    def _take(self, events: list[EventView]) -> None:
        fresh = [event for event in events if event.seq > self._last]
        if fresh:
            self._last = fresh[-1].seq
            self._deliver(fresh)
