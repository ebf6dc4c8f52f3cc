"""A job's history on this machine: the controller's decisions and the master's events, in one
order.

Each event gets its number here, in the order in which `resile up` received it, and is written to
the job's folder before it is shown. The master numbers its own events; that number only says where
the next request continues. The controller takes the master's events before it records a decision,
so a decision follows the events that led to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

import msgspec

from resile.local.jobdir import JobDir
from resile.wire.errors import WireError
from resile.wire.http_client import MasterHttpClient
from resile.wire.views import EventView

__all__ = ["JobHistory", "MasterEvents"]

KEPT = 20_000
"""Maximum number of events in memory, for requests; the file has them all."""

WAIT = 20.0
"""Seconds that one request waits for new events; a timeout costs one empty answer."""

RETRY = 0.1


class JobHistory:
    """All events of one job."""

    def __init__(self, folder: JobDir, tell: Callable[[list[EventView]], None]) -> None:
        """``tell`` is called with every event once it is written."""
        self._folder = folder
        self._tell = tell
        self._events: deque[EventView] = deque(maxlen=KEPT)
        self._news = asyncio.Event()

    def append(self, events: Iterable[EventView]) -> None:
        """Number events, write them to the file and show them."""
        last = self._events[-1].seq if self._events else 0
        numbered = [
            msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, last + 1)
        ]
        if not numbered:
            return
        self._folder.append_events(numbered)
        self._events.extend(numbered)
        news, self._news = self._news, asyncio.Event()
        news.set()
        self._tell(numbered)

    async def after(self, since: int, *, wait: float) -> list[EventView]:
        """Return the events after ``since``; wait up to ``wait`` seconds for the first."""
        deadline = time.monotonic() + wait
        while True:
            fresh = list(takewhile(lambda event: event.seq > since, reversed(self._events)))[::-1]
            left = deadline - time.monotonic()
            if fresh or left <= 0:
                return fresh
            news = self._news
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(news.wait(), left)


class MasterEvents:
    """Takes the events of the job's master into the history, each once."""

    def __init__(
        self, master: MasterHttpClient, history: JobHistory, *, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when events were taken."""
        self._master = master
        self._history = history
        self._changed = changed
        self._last = 0

    async def follow(self) -> None:
        """Take events as they happen, until cancelled; retried while the master is unavailable."""
        while True:
            try:
                self._take(await self._master.events(since=self._last, wait=WAIT))
            except WireError:
                await asyncio.sleep(RETRY)

    async def catch_up(self) -> None:
        """Take all events so far; raises WireError if the master does not answer."""
        self._take(await self._master.events(since=self._last))

    def _take(self, events: list[EventView]) -> None:
        fresh = [event for event in events if event.seq > self._last]
        if fresh:
            self._last = fresh[-1].seq
            self._history.append(fresh)
            self._changed()
