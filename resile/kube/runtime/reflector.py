"""Keep a cache of all objects of one kind up to date: list once, then watch from there.

A watch that the server ends is resumed where it stopped; bookmarks advance that point even when
nothing of ours happens, so that it is seldom compacted away. After any failure everything is
relisted, which also finds what was deleted meanwhile. A server that stays silent past the end of a
watch is gone, whatever the state of its connection; the client reports that as a failure too.
Nothing that the API server does ends :meth:`Reflector.run`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Hashable
from contextlib import aclosing

from resile.kube.client import SILENCE_MARGIN, KubeClient
from resile.kube.errors import ApiUnreachable, Gone, KubeError
from resile.kube.resources import KubeObject, Resource
from resile.kube.runtime.backoff import Backoff
from resile.kube.runtime.cache import Changed, Index, ObjectCache, Trim

__all__ = ["Reflector"]

log = logging.getLogger("resile.operator")

WATCH_SECONDS = 60
"""Duration of one watch. It bounds for how long a dead connection can go unnoticed."""

RETRY = Backoff(first=0.2, most=5.0)
"""A restarted API server is back in seconds, and pods that died meanwhile should not wait long."""

SHORTEST = 1.0
"""Seconds. A watch that ends sooner without an event is a failure: resuming it would spin."""


class Reflector:
    """Keeps one :class:`ObjectCache` up to date with the API server."""

    def __init__(
        self,
        client: KubeClient,
        kind: Resource,
        *,
        changed: Changed,
        index: Index | None = None,
        kept: Trim | None = None,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        watch_seconds: int = WATCH_SECONDS,
        silence_margin: float = SILENCE_MARGIN,
        retry: Backoff = RETRY,
    ) -> None:
        """``namespace``: None for all. ``changed`` is called synchronously and must be fast."""
        self.kind = kind
        self.store = ObjectCache(changed=changed, index=index, kept=kept)
        self.synced = asyncio.Event()
        """Set after the first complete list."""
        self.lists = 0
        """Number of complete lists: one at the start, and one after every failure."""
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._watch_seconds = watch_seconds
        self._silence_margin = silence_margin
        self._retry = retry
        self._failures = 0

    def put(self, obj: KubeObject) -> None:
        """Update the cache with the response to our own write, ahead of the watch."""
        self.store.update_from_write(obj)

    def by_index(self, found: Hashable) -> tuple[KubeObject, ...]:
        """Return all objects for which the index function returns this value."""
        return self.store.by_index(found)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except KubeError as error:
                self._failures += 1
                delay = self._retry.delay(self._failures)
                level = logging.INFO if isinstance(error, Gone) else logging.WARNING
                log.log(level, "relisting %s in %.1f s: %s", self.kind.plural, delay, error)
                await asyncio.sleep(delay)

    async def _list(self) -> None:
        listed = await self._client.list(
            self.kind, namespace=self._namespace, labels=self._labels, fields=self._fields
        )
        self.lists += 1
        self.store.replace(listed.items, listed.resource_version)
        self.synced.set()

    async def _watch(self) -> None:
        """Follow one watch until the server ends it."""
        began = time.monotonic()
        events = self._client.watch(
            self.kind,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=self.store.resource_version,
            # Jitter: not all reflectors at the same moment.
            timeout_seconds=round(self._watch_seconds * random.uniform(1.0, 1.3)),
            silence_margin=self._silence_margin,
        )
        spoke = False
        async with aclosing(events):
            async for event, obj in events:
                self._take(event, obj)
                spoke = True
        if not spoke and time.monotonic() - began < SHORTEST:
            raise ApiUnreachable(f"the API server ended a watch of {self.kind.plural} at once")
        self._failures = 0

    def _take(self, event: str, obj: KubeObject) -> None:
        self._failures = 0
        if event == "BOOKMARK":
            self.store.resource_version = obj["metadata"]["resourceVersion"]
        elif event == "DELETED":
            self.store.delete(obj)
        else:
            self.store.update(obj)
