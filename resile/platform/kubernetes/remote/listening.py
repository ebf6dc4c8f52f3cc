"""A job's story as it goes on: the cluster's Events read once, then followed."""

from __future__ import annotations

import time
from contextlib import aclosing

from resile.platform.kubernetes.errors import Gone, KubeError
from resile.platform.kubernetes.kinds import EVENTS, KubeObject, key_of
from resile.platform.kubernetes.remote.cluster import Cluster
from resile.platform.kubernetes.remote.patience import RETRY, may_pass, patiently
from resile.platform.kubernetes.remote.story import Story
from resile.wire.views import EventView

__all__ = ["Listener"]


class Listener:
    """To one job's."""

    def __init__(self, cluster: Cluster, raw: KubeObject) -> None:
        self._cluster = cluster
        self._namespace, _ = key_of(raw)
        self._story = Story(raw)
        self._version = ""
        """How far the cluster's history has been read."""

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``, waiting up to ``wait`` seconds for the first."""
        deadline = time.monotonic() + wait
        if not self._version or not wait:
            self._read()
        while True:
            fresh = [event for event in self._story.told if event.seq > since]
            left = deadline - time.monotonic()
            if fresh or left <= 0:
                return fresh
            self._await(left)

    def _read(self) -> None:
        listed = patiently(
            lambda: self._cluster.ask(self._cluster.client.list(EVENTS, namespace=self._namespace))
        )
        self._story.take(listed.items)
        self._version = listed.resource_version

    def _await(self, seconds: float) -> None:
        """Return with something new, or when the time is over."""
        try:
            self._cluster.ask(self._watch(max(1, int(seconds))))
        except Gone:
            self._read()
        except KubeError as error:
            if not may_pass(error):
                raise
            time.sleep(RETRY)
            self._read()

    async def _watch(self, seconds: int) -> None:
        watch = self._cluster.client.watch(
            EVENTS,
            namespace=self._namespace,
            resource_version=self._version,
            timeout_seconds=seconds,
        )
        async with aclosing(watch):
            async for verb, event in watch:
                self._version = event["metadata"]["resourceVersion"]
                if verb in ("ADDED", "MODIFIED") and self._story.take([event]):
                    return
