"""Follow a job's events: a thread that long-polls the master for the next one.

It asks for the events after the last one it knows, and the master answers when there is one, so
events arrive at once without busy polling. While the master is unavailable it retries; events are
not delivered twice.
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
"""Seconds of one long poll; its end costs one empty response."""

RETRY = 0.1


class NewsReader:
    """Passes events, in order and each once, to ``deliver`` in the event loop's thread."""

    def __init__(self, inquiry: Inquiry, deliver: Callable[[list[EventView]], None]) -> None:
        self._inquiry = inquiry
        self._deliver = deliver
        self._last = 0
        self._loop = asyncio.get_running_loop()
        # A daemon: the process must not wait for a pending poll when it ends.
        self._thread = threading.Thread(target=self._read, name="news", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def catch_up(self) -> None:
        """Deliver all events that exist now; for the end, when no more will come."""
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
