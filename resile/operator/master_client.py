"""The operator's client of one job's master: receives views and events, and sends directives.

One task waits for events of the master and another sends it directives, so that a reconcile does
not wait for a slow network: the operator decides with the latest view, and a job's master that
hangs delays no other job. Only when nodes have ended is the master asked at once, with a short
timeout, because an agent that exits with an outcome does so after its master has stored it.
Requests to a master that is away are retried until it answers; training needs neither of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import aiohttp

from resile.job.training import TrainingView
from resile.operator.build.master import JobSecret
from resile.wire.bounds import answer_limit
from resile.wire.client import Access
from resile.wire.directive import Directive
from resile.wire.endpoint import Endpoint
from resile.wire.errors import Unreachable, WireError
from resile.wire.http_client import MasterHttpClient
from resile.wire.server import RateLimiter
from resile.wire.views import EventView

__all__ = ["MasterClient"]

log = logging.getLogger("resile.operator")

ANSWER_TIMEOUT = 5.0
RETRY = 1.0
"""Seconds between two attempts at a master that does not answer: starting takes about as long."""

EVENTS_LIVE = 3600.0
"""Seconds for which Kubernetes keeps Events: whether an older one was published cannot be known."""

PASSING = (asyncio.TimeoutError, WireError)
"""Errors of a master that is away, or is being replaced."""

EVENTS_AT_ONCE = 200
"""The most events published from one answer. A job's burst of Kubernetes Events is smaller."""

AHEAD = 60.0
"""Seconds by which a master's clock may be ahead of ours: an event from a more distant future must
not suppress those of the present."""

ANSWERS_PER_SECOND = 5.0
ANSWERS_AT_ONCE = 50
"""An answer comes when something happened, or after seconds. A master that always answers at once
must not keep the operator from other jobs."""


class MasterClient:
    """The client of one job's master. :meth:`close` it when the job is gone."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        secret: JobSecret,
        *,
        refresh: float,
        news: Callable[[list[EventView]], None],
        changed: Callable[[], None],
    ) -> None:
        """``news`` gets each event once; ``changed`` is called when there is a new view."""
        self.latest: dict[str, TrainingView] | None = None
        """The master's latest view of the training of every group; None before its first answer."""

        self.latest_at = 0.0
        """The Unix time of :attr:`latest`."""

        self.most_nodes = 0
        """The most nodes that the job may have: the limit of an answer depends on it."""

        self._answers = RateLimiter(
            time.monotonic(), per_second=ANSWERS_PER_SECOND, burst=ANSWERS_AT_ONCE
        )
        self.secret = secret
        self._tls = secret.client_context()
        self._session = session
        self._refresh = refresh
        self._news = news
        self._changed = changed
        self._endpoint: Endpoint | None = None
        self._client: MasterHttpClient | None = None
        self._moved = asyncio.Event()
        self._since = 0
        self._told_until = time.time() - EVENTS_LIVE
        self._decided: Directive | None = None
        self._published: Directive | None = None
        self._to_tell = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._persist(turn)) for turn in (self._listen, self._inform)
        ]

    def set_endpoint(self, endpoint: Endpoint | None) -> None:
        """Set the address of the master; None if there is no master."""
        if endpoint != self._endpoint:
            self._endpoint = endpoint
            access = None if endpoint is None else Access(endpoint, self.secret.token, self._tls)
            self._client = (
                None
                if access is None
                else MasterHttpClient(self._session, access, timeout=ANSWER_TIMEOUT)
            )
            self._since = 0
            self._published = None
            self._moved.set()
            self._to_tell.set()

    async def look(self, timeout: float) -> None:
        """Update :attr:`latest`, if the master answers within ``timeout`` seconds."""
        try:
            self._take(await asyncio.wait_for(self._trainings(), timeout))
        except PASSING as error:
            log.debug("the master at %s does not answer: %s", self._endpoint, error)

    def direct(self, directive: Directive) -> None:
        """Send a directive to the master, as soon as it answers."""
        self._decided = directive
        self._to_tell.set()

    async def close(self) -> None:
        """Stop both tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _persist(self, turn: Callable[[], Awaitable[None]]) -> None:
        """Repeat a turn forever. A bug of ours must not cut the job off for good either."""
        while True:
            try:
                await turn()
            except PASSING as error:
                log.debug("the master at %s does not answer: %s", self._endpoint, error)
                # It may be restarted in place, and does not store everything that it is sent.
                self._published = None
                self._to_tell.set()
                await asyncio.sleep(RETRY)
            except Exception:
                log.exception("the line to the master at %s has a fault", self._endpoint)
                await asyncio.sleep(RETRY)

    async def _inform(self) -> None:
        """Send the latest directive, if the master does not have it."""
        await self._to_tell.wait()
        endpoint, decided = self._endpoint, self._decided
        if endpoint is not None and decided is not None and decided != self._published:
            await self._master().direct(decided)
            if endpoint == self._endpoint:
                self._published = decided
        if (endpoint, decided) == (self._endpoint, self._decided):
            self._to_tell.clear()

    async def _listen(self) -> None:
        """Wait for an address of the master, then for its events."""
        if self._endpoint is None:
            self._moved.clear()
            await self._moved.wait()
        else:
            await self._hear()

    async def _hear(self) -> None:
        """Wait for events, at most until the view has to be refreshed."""
        endpoint = self._endpoint
        events = await self._master().events(since=self._since, wait=self._refresh)
        trainings = await self._trainings()
        if endpoint != self._endpoint:
            return
        self._take(trainings)
        if events:
            self._since = events[-1].seq
        # A replaced master sends all its events again, or counts from zero: compare times.
        fresh = [event for event in events if event.time > self._told_until]
        if fresh:
            self._told_until = min(fresh[-1].time, time.time() + AHEAD)
            self._news(fresh[-EVENTS_AT_ONCE:])
        self._changed()
        if not self._answers.allows(time.monotonic()):
            await asyncio.sleep(RETRY)

    async def _trainings(self) -> dict[str, TrainingView]:
        """Return the trainings alone: the rest of a job's view is the operator's own."""
        return await self._master().trainings()

    def _take(self, trainings: dict[str, TrainingView]) -> None:
        self.latest, self.latest_at = trainings, time.time()

    def _master(self) -> MasterHttpClient:
        if self._client is None:
            raise Unreachable("there is no master")
        self._client.limit = answer_limit(self.most_nodes)
        return self._client
