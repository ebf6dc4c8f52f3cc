"""A job's events from Kubernetes' Events of the job itself and of its pods: listed once, then
watched.

The operator records its decisions on the job and on the pod; the pod's copy is left out. Events of
the scheduler and the kubelets about its pods are included: they say why an image cannot be pulled,
for example. An event that recurs is counted by the API server, not repeated; each time its count is
seen to have grown, it becomes one more event here.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from resile.client.cluster.job_object import parse_job
from resile.client.cluster.retry import PAUSE, is_transient, retry_unavailable
from resile.job.naming import pod_names
from resile.job.spec.job import KIND
from resile.kube.errors import Gone, KubeError
from resile.kube.resources import EVENTS, KubeObject, key_of
from resile.operator.observe.pod_status import parse_time
from resile.wire.views import EventView

if TYPE_CHECKING:
    from resile.kube.client import KubeClient

__all__ = ["EventHistory", "EventStream"]

OPERATOR = "resile-operator"
"""The component name in the operator's events."""


class EventStream:
    """The events of one job, as they happen."""

    def __init__(self, client: KubeClient, raw: KubeObject) -> None:
        self._client = client
        self._namespace, _ = key_of(raw)
        self._history = EventHistory(raw)
        self._version = ""
        """The resource version up to which events were read."""

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds for the first."""
        deadline = time.monotonic() + wait
        if not self._version or not wait:
            await self._read()
        while True:
            fresh = [event for event in self._history.events if event.seq > since]
            left = deadline - time.monotonic()
            if fresh or left <= 0:
                return fresh
            await self._await(left)

    async def _read(self) -> None:
        listed = await retry_unavailable(
            lambda: self._client.list(EVENTS, namespace=self._namespace)
        )
        self._history.take(listed.items)
        self._version = listed.resource_version

    async def _await(self, seconds: float) -> None:
        """Wait for new events; return when there are some or the time is over."""
        try:
            await self._watch(max(1, int(seconds)))
        except Gone:
            await self._read()
        except KubeError as error:
            if not is_transient(error):
                raise
            await asyncio.sleep(PAUSE)
            await self._read()

    async def _watch(self, seconds: int) -> None:
        watch = self._client.watch(
            EVENTS,
            namespace=self._namespace,
            resource_version=self._version,
            timeout_seconds=seconds,
        )
        async with aclosing(watch):
            async for verb, event in watch:
                self._version = event["metadata"]["resourceVersion"]
                if verb in ("ADDED", "MODIFIED") and self._history.take([event]):
                    return


class EventHistory:
    """Numbers events in the order in which they were first seen. Pure."""

    def __init__(self, job: KubeObject) -> None:
        metadata = job["metadata"]
        self._name: str = metadata["name"]
        self._uid: str = metadata["uid"]
        self._since = _moment(metadata.get("creationTimestamp"))
        self._pods = _pod_names(self._name, job)
        self._counts: dict[str, int] = {}
        self.events: list[EventView] = []

    def take(self, events: Iterable[KubeObject]) -> list[EventView]:
        """Return what is new in a list of events, oldest first."""
        fresh: list[EventView] = []
        for event in sorted(filter(self._concerns, events), key=_order):
            count = _count(event)
            name = event["metadata"].get("uid") or event["metadata"]["name"]
            if count > self._counts.get(name, 0):
                self._counts[name] = count
                fresh.append(self._view(event, seq=len(self.events) + len(fresh) + 1))
        self.events += fresh
        return fresh

    def _concerns(self, event: KubeObject) -> bool:
        about: Mapping[str, Any] = event.get("involvedObject") or {}
        if about.get("kind") == KIND:
            return bool(about.get("uid") == self._uid)
        if about.get("kind") != "Pod" or (event.get("source") or {}).get("component") == OPERATOR:
            return False
        named = self._pods.fullmatch(about.get("name") or "") is not None
        return named and _time(event) >= self._since  # else: of an earlier job of this name

    def _view(self, event: KubeObject, *, seq: int) -> EventView:
        about = event["involvedObject"]
        text = (event.get("message") or "").strip()
        if about["kind"] == "Pod":
            text = f"{about['name']}: {text}"
        count = _count(event)
        if count > 1:
            text += f" ({count} times)"
        return EventView(seq=seq, time=_time(event), kind=event.get("reason") or "", text=text)


def _pod_names(name: str, raw: KubeObject) -> re.Pattern[str]:
    """Return a pattern for the job's pods: names, as a pod's events outlive it by an hour."""
    job = parse_job(raw)
    if job is None:  # written by another version of Resile
        return re.compile(f"{re.escape(name)}-(?:master|coordinator)-[0-9]+")
    return pod_names(job)


def _count(event: KubeObject) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def _time(event: KubeObject) -> float:
    """Return the time of its last occurrence. Which fields it has depends on its reporter."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    rest = (event.get("firstTimestamp"), event["metadata"].get("creationTimestamp"))
    return next((_moment(text) for text in (*times, *rest) if text), 0.0)


def _moment(text: str | None) -> float:
    when = parse_time(text)
    return when.timestamp() if when else 0.0


def _order(event: KubeObject) -> tuple[float, int]:
    """Return the sort key: the time, in whole seconds, then the order in the API server."""
    version = event["metadata"].get("resourceVersion") or ""
    return _time(event), int(version) if version.isdigit() else 0
