"""A work queue of keys, with at most one handler per key at a time.

A key stands for an object; what happened to it does not matter, because its handler observes its
whole state. So a key that is added twice before it is handled is handled once, and one that is
added while it is being handled is handled again afterwards: its handler may have seen an old state.
The key of a handler that fails is requeued, with a delay that grows with the number of failures.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from resile.kube.runtime.backoff import Backoff

__all__ = ["QueueObserver", "Retry", "WorkQueue"]

log = logging.getLogger("resile.operator")

WORKERS = 8
"""Handlers wait for the API server most of the time; more would only wait for each other."""

RETRY = Backoff(first=0.05, most=60.0)
"""A conflict resolves at once; an exhausted quota takes minutes."""

K = TypeVar("K", bound=Hashable)


class Retry(Exception):
    """Raised by a handler that has to be retried, for a reason that is not an error of ours."""

    def __init__(self, reason: str, *, after: float | None = None) -> None:
        """``after``: seconds, where the handler knows better than the back-off."""
        super().__init__(reason)
        self.after = after


class QueueObserver(Protocol):
    """Receives a queue's measurements, in seconds."""

    def waited(self, seconds: float) -> None:
        """A key is about to be handled, this long after it was queued."""

    def handled(self, seconds: float) -> None:
        """A handler returned or failed."""

    def failed(self) -> None:
        """A handler failed."""


class _NullObserver:
    """Ignores all measurements."""

    def waited(self, seconds: float) -> None: ...

    def handled(self, seconds: float) -> None: ...

    def failed(self) -> None: ...


class WorkQueue(Generic[K]):
    """A deduplicating queue in one event loop. Keys may be added before and between runs."""

    def __init__(self, *, retry: Backoff = RETRY, observer: QueueObserver | None = None) -> None:
        self._retry = retry
        self._observer: QueueObserver = observer or _NullObserver()
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._wanted: dict[K, float] = {}
        """Queued keys, those in ``_ready`` and those being handled again, and since when."""
        self._in_hand: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._rests_until: dict[K, float] = {}

    @property
    def depth(self) -> int:
        """The number of keys that wait to be handled."""
        return len(self._wanted)

    def rest(self, key: K, seconds: float) -> None:
        """Delay the next handling of a key by at least so many seconds, even if it is added
        meanwhile: an expensive key must not starve the others."""
        if seconds > 0.0:
            self._rests_until[key] = time.monotonic() + seconds

    def add(self, key: K) -> None:
        """Queue a key: it is handled once its rest is over, a worker is free and its current
        handler has returned."""
        if key in self._wanted:
            return
        left = self._rests_until.get(key, 0.0) - time.monotonic()
        if left > 0.0:
            self.add_after(key, left)
            return
        self._rests_until.pop(key, None)
        self._wanted[key] = time.monotonic()
        if key not in self._in_hand:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key after a delay; of two delays the one that ends first counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._on_timer, key)

    async def run(self, handler: Callable[[K], Awaitable[None]], *, workers: int = WORKERS) -> None:
        """Handle keys until cancelled. Keys being handled at that time are requeued for the next
        run."""
        tasks = [asyncio.ensure_future(self._work(handler)) for _ in range(workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, handler: Callable[[K], Awaitable[None]]) -> None:
        while True:
            key = await self._ready.get()
            self._observer.waited(time.monotonic() - self._wanted.pop(key))
            self._in_hand.add(key)
            try:
                await self._handle(key, handler)
            except asyncio.CancelledError:
                self.add(key)
                raise
            finally:
                self._in_hand.discard(key)
                if self._wanted.pop(key, None) is not None:
                    self.add(key)

    async def _handle(self, key: K, handler: Callable[[K], Awaitable[None]]) -> None:
        began = time.monotonic()
        try:
            await handler(key)
        except Retry as retry:
            self._requeue(key, str(retry), after=retry.after)
        except Exception as error:
            self._requeue(key, f"{type(error).__name__}: {error}", fault=error)
        else:
            self._failures.pop(key, None)
        finally:
            self._observer.handled(time.monotonic() - began)

    def _requeue(
        self, key: K, reason: str, *, after: float | None = None, fault: Exception | None = None
    ) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._retry.delay(failures) if after is None else after
        self._observer.failed()
        level = logging.INFO if fault is None else logging.WARNING
        log.log(level, "%s: retrying in %.2f s: %s", key, delay, reason, exc_info=fault)
        self.add_after(key, delay)

    def _on_timer(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
