"""Tells people what happens to an object, as Kubernetes Events (``kubectl describe`` shows them).

Whoever has something to tell neither waits nor fails: notes go into a bounded queue, and a task in
the background writes them as ``correlation`` decides. What cannot be written is counted and
dropped; an event is worth nothing to the one that it is about.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from datetime import datetime, timezone

from resile.operator.backoff import Backoff
from resile.operator.correlation import Correlator, EventLimits, Note
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import (
    AlreadyExists,
    ApiError,
    KubeError,
    NotFound,
    Unreachable,
)
from resile.platform.kubernetes.kinds import EVENTS, KubeObject

__all__ = ["EventRecorder"]

log = logging.getLogger("resile.operator")

WAITING = 1000
"""Notes that may wait to be written: minutes of a busy operator's, some hundred kB."""

TRIES = 8
RETRY = Backoff(first=0.5, most=10.0)
"""Together about half a minute: an API server that is restarted does not cost events."""

LONGEST_MESSAGE = 1024
LONGEST_NAME = 253
"""The API's own limits."""


class EventRecorder:
    """Takes notes, and writes them while ``run`` runs."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str = "resile-operator",
        limits: EventLimits | None = None,
        waiting: int = WAITING,
    ) -> None:
        """``component``: who tells."""
        self.dropped = 0
        """How many notes did not become, or count on, an event."""
        self._client = client
        self._component = component
        self._correlator = Correlator(limits or EventLimits())
        self._notes: asyncio.Queue[Note] = asyncio.Queue(waiting)

    def record(
        self,
        obj: KubeObject,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        at: float | None = None,
    ) -> None:
        """Tell something about ``obj``, which needs its ``apiVersion`` and ``kind``.

        ``at``: when it happened, if not now. What happened at one moment is told once, also by
        another recorder that hears of it later.
        """
        when = time.time() if at is None else at
        note = Note(_reference(obj), reason, message[:LONGEST_MESSAGE], warning, at=when)
        try:
            self._notes.put_nowait(note)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write what is told, until cancelled."""
        while True:
            await self._tell(await self._notes.get())

    async def _tell(self, note: Note) -> None:
        admitted = self._correlator.admit(note)
        if admitted is None:
            self.dropped += 1
            return
        try:
            await self._persistently(admitted)
        except KubeError as error:
            self.dropped += 1
            log.info("an event of %s was not written: %s", note.involved.get("name"), error)
        except Exception:
            self.dropped += 1
            log.exception("an event of %s was not written", note.involved.get("name"))

    async def _persistently(self, note: Note) -> None:
        for failures in range(1, TRIES):
            try:
                return await self._write(note)
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status < 500 and error.status != 429:
                    raise
                await asyncio.sleep(RETRY.delay(failures))
        return await self._write(note)

    async def _write(self, note: Note) -> None:
        """Count it on the event there is, or make one."""
        running = self._correlator.running(note, name=_event_name(note))
        if running.count:
            try:
                await self._count(note, running.name, running.count + 1)
            except NotFound:
                # Events live for an hour.
                self._correlator.forget(note)
                running = self._correlator.running(note, name=_event_name(note))
        if not running.count:
            # It is there already if our answer was lost, or an operator before us told it.
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


def _reference(obj: KubeObject) -> KubeObject:
    metadata = obj["metadata"]
    told = {key: metadata.get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
    told |= {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    return {key: value for key, value in told.items() if value}


def _namespace(note: Note) -> str:
    """Events live beside their object; those of objects without a namespace, in ``default``."""
    namespace: str = note.involved.get("namespace", "default")
    return namespace


def _event_name(note: Note) -> str:
    """One of what happened: whoever tells the same again finds it told."""
    told = (note.involved.get("uid"), note.reason, note.message, note.at)
    unique = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
    return f"{note.involved['name'][: LONGEST_NAME - len(unique) - 1]}.{unique}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
