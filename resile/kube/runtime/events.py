"""Record Kubernetes Events about objects (``kubectl describe`` shows them).

Recording neither blocks nor fails: the correlator decides which notes become Events, those go
into a bounded queue, and background tasks write them. Events that cannot be written are counted
and dropped: nothing depends on them.

Owners (jobs) take turns in the queue, so a noisy one costs no other an Event: however many notes
one owner has, others wait for at most one of them and never lose one because of it. Each owner
has a bounded number of notes, and when all together have too many, the longest queue loses its
newest. Notes of one owner are written in order, one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Generic, TypeVar

from resile.kube.client import KubeClient
from resile.kube.errors import (
    AlreadyExists,
    ApiError,
    ApiUnreachable,
    KubeError,
    NotFound,
)
from resile.kube.resources import EVENTS, Key, KubeObject, key_of
from resile.kube.runtime.backoff import Backoff
from resile.kube.runtime.event_correlator import EventCorrelator, EventLimits, LruDict, Note

__all__ = [
    "EventRecorder",
    "FairQueue",
]


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class FairQueue(Generic[K, T]):
    """A bounded queue with round-robin between keys. Use it in one event loop only."""

    def __init__(self, *, each: int, total: int) -> None:
        """``each``: items that one key may have; ``total``: all keys together."""
        self._each = each
        self._total = total
        self._length = 0
        self._items: dict[K, deque[T]] = {}
        self._turns: asyncio.Queue[K] = asyncio.Queue()
        """Keys that have items, none of which is being handled or delayed."""

    def put(self, key: K, item: T) -> int:
        """Add an item. Returns how many items were dropped for it: 0 or 1."""
        items = self._items.get(key)
        if items is not None and len(items) >= self._each:
            return 1
        if items is None:
            items = self._items[key] = deque()
            self._turns.put_nowait(key)
        items.append(item)
        self._length += 1
        return self._shorten() if self._length > self._total else 0

    async def take(self) -> tuple[K, T]:
        """Return the next item. Its key is skipped until :meth:`done` or :meth:`put_off`."""
        while True:
            key = await self._turns.get()
            items = self._items[key]
            if items:
                self._length -= 1
                return key, items.popleft()
            del self._items[key]

    def done(self, key: K) -> None:
        """Mark the item that was taken from ``key`` as handled."""
        if self._items[key]:
            self._turns.put_nowait(key)
        else:
            del self._items[key]

    def put_off(self, key: K, item: T, seconds: float) -> None:
        """Requeue the item that was taken after a delay, ahead of the others of its key."""
        self._items[key].appendleft(item)
        self._length += 1
        asyncio.get_running_loop().call_later(seconds, self._turns.put_nowait, key)

    def _shorten(self) -> int:
        longest = max(self._items.values(), key=len)
        longest.pop()
        self._length -= 1
        return 1


log = logging.getLogger("resile.operator")

WAITING = 200
"""Queued notes of one job: two bursts of an object."""

WAITING_IN_ALL = 20_000
"""Queued notes of all jobs together, some 20 MB."""

JOBS_REMEMBERED = 4096
"""Jobs whose recent Events are remembered; the least recently used are dropped."""

WRITERS = 4
"""Concurrent writes, of as many jobs: an API server that is slow in one namespace, for example
because of a webhook, does not delay the Events of others."""

TRIES = 8
RETRY = Backoff(first=0.5, most=10.0)
"""Together about half a minute: a restart of the API server does not cost Events."""

LONGEST_REASON = 128
LONGEST_MESSAGE = 1024
LONGEST_NAME = 253
"""The API's own limits."""


@dataclass
class _QueuedNote:
    """A note in the queue."""

    note: Note
    correlator: EventCorrelator
    failures: int = 0


class EventRecorder:
    """Queues notes, and writes them while ``run`` runs."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str = "resile-operator",
        limits: EventLimits | None = None,
        waiting: int = WAITING,
        owner_of: Callable[[KubeObject], Key] = key_of,
    ) -> None:
        """``component``: the source of the Events; ``waiting``: queued notes of one owner;
        ``owner_of``: the job that an object belongs to, by which limits and turns are counted."""
        self.dropped = 0
        """How many notes were lost."""
        self._client = client
        self._component = component
        self._limits = limits or EventLimits()
        self._owner_of = owner_of
        self._correlators: LruDict[Key, EventCorrelator] = LruDict(JOBS_REMEMBERED)
        self._notes: FairQueue[Key, _QueuedNote] = FairQueue(each=waiting, total=WAITING_IN_ALL)

    def record(
        self,
        obj: KubeObject,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        at: float | None = None,
    ) -> bool:
        """Record an Event about ``obj``, which needs its ``apiVersion`` and ``kind``. Returns
        whether it was queued.

        ``at``: when it happened, if not now. The same note with the same time is one Event, even
        if another recorder writes it later.
        """
        now = time.time()
        incoming = Note(
            _reference(obj),
            reason[:LONGEST_REASON],
            message[:LONGEST_MESSAGE],
            warning,
            at=now if at is None else at,
        )
        job = self._owner_of(obj)
        correlator = self._correlators.get(job, lambda: EventCorrelator(self._limits))
        note = correlator.admit(incoming, now=now)
        dropped = 1 if note is None else self._notes.put(job, _QueuedNote(note, correlator))
        self.dropped += dropped
        return not dropped

    async def run(self) -> None:
        """Write queued notes until cancelled."""
        writers = [asyncio.ensure_future(self._tell_all()) for _ in range(WRITERS)]
        try:
            await asyncio.gather(*writers)
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)

    async def _tell_all(self) -> None:
        while True:
            job, queued = await self._notes.take()
            delay = await self._tell(queued)
            if delay is None:
                self._notes.done(job)
            else:
                self._notes.put_off(job, queued, delay)

    async def _tell(self, queued: _QueuedNote) -> float | None:
        """Write a note. Returns the seconds until a retry; None if it is written or dropped."""
        try:
            await self._write(queued)
        except KubeError as error:
            queued.failures += 1
            if _may_pass(error) and queued.failures < TRIES:
                return RETRY.delay(queued.failures)
            self.dropped += 1
            log.info("dropped an event about %s: %s", queued.note.involved.get("name"), error)
        except Exception:
            self.dropped += 1
            log.exception("dropped an event about %s", queued.note.involved.get("name"))
        return None

    async def _write(self, queued: _QueuedNote) -> None:
        """Increment the existing Event's count or create one."""
        note, correlator = queued.note, queued.correlator
        running = correlator.running(note, name=_event_name(note))
        if running.count:
            try:
                await self._count(note, running.name, running.count + 1)
            except NotFound:
                # Events live for an hour.
                correlator.forget(note)
                running = correlator.running(note, name=_event_name(note))
        if not running.count:
            # It exists already if the response was lost, or a previous operator wrote it.
            with contextlib.suppress(AlreadyExists):
                await self._client.create(EVENTS, self._event(note, running.name))
        running.count += 1

    async def _count(self, note: Note, name: str, count: int) -> None:
        body = {"count": count, "lastTimestamp": _moment(note.at), "message": note.message}
        await self._client.patch(EVENTS, name, body, namespace=_namespace(note))

    def _event(self, note: Note, name: str) -> KubeObject:
        return {
            "metadata": {"name": name, "namespace": _namespace(note)},
            "involvedObject": note.involved,
            "reason": note.reason,
            "message": note.message,
            "type": "Warning" if note.warning else "Normal",
            "source": {"component": self._component},
            "firstTimestamp": _moment(note.at),
            "lastTimestamp": _moment(note.at),
            "count": 1,
        }


def _may_pass(error: KubeError) -> bool:
    """Return whether a retry may succeed."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status == 429
    return isinstance(error, ApiUnreachable)


def _reference(obj: KubeObject) -> KubeObject:
    metadata = obj["metadata"]
    fields = {key: metadata.get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
    fields |= {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    return {key: value for key, value in fields.items() if value}


def _namespace(note: Note) -> str:
    """The namespace of the object; ``default`` for objects without one."""
    namespace: str = note.involved.get("namespace", "default")
    return namespace


def _event_name(note: Note) -> str:
    """A name derived from the content: recording the same again finds the Event."""
    identity = (note.involved.get("uid"), note.reason, note.message, note.at)
    unique = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    return f"{note.involved['name'][: LONGEST_NAME - len(unique) - 1]}.{unique}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
