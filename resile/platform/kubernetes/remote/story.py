"""A job's story out of Kubernetes' Events: of the job itself, and of its pods. Pure.

What the operator decides it tells on the job and on the pod; the pod's copy is left out. What
scheduler and kubelets tell of its pods is part of the story: that is where one reads why an image
cannot be pulled. An event that is told again is counted by the API server, not repeated; each time
the count is seen to have grown it becomes one more event here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from resile.job.naming import pod_names
from resile.job.spec import KIND
from resile.platform.kubernetes.facts import parse_time
from resile.platform.kubernetes.kinds import KubeObject
from resile.platform.kubernetes.remote.seeing import job_in
from resile.wire.views import EventView

__all__ = ["Story"]

OPERATOR = "resile-operator"
"""The component as which the operator tells events."""


class Story:
    """Numbers events in the order in which they were first seen to be so."""

    def __init__(self, job: KubeObject) -> None:
        metadata = job["metadata"]
        self._name: str = metadata["name"]
        self._uid: str = metadata["uid"]
        self._since = _moment(metadata.get("creationTimestamp"))
        self._pods = _pod_names(self._name, job)
        self._counts: dict[str, int] = {}
        self.told: list[EventView] = []

    def take(self, events: Iterable[KubeObject]) -> list[EventView]:
        """What is new in a list of events, oldest first."""
        fresh: list[EventView] = []
        for event in sorted(filter(self._concerns, events), key=_order):
            count = _count(event)
            name = event["metadata"].get("uid") or event["metadata"]["name"]
            if count > self._counts.get(name, 0):
                self._counts[name] = count
                fresh.append(self._view(event, seq=len(self.told) + len(fresh) + 1))
        self.told += fresh
        return fresh

    def _concerns(self, event: KubeObject) -> bool:
        about: Mapping[str, Any] = event.get("involvedObject") or {}
        if about.get("kind") == KIND:
            return bool(about.get("uid") == self._uid)
        if about.get("kind") != "Pod" or (event.get("source") or {}).get("component") == OPERATOR:
            return False
        named = self._pods.fullmatch(about.get("name") or "") is not None
        return named and _time(event) >= self._since  # else of an earlier job of this name

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
    """Which pods are the job's. By name, because the events of a pod outlive it by an hour."""
    job = job_in(raw)
    if job is None:  # written by another version of Resile
        return re.compile(f"{re.escape(name)}-(?:master|coordinator)-[0-9]+")
    return pod_names(job)


def _count(event: KubeObject) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def _time(event: KubeObject) -> float:
    """When it was told last. What tells it decides which of the fields there are."""
    series = event.get("series") or {}
    told = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    rest = (event.get("firstTimestamp"), event["metadata"].get("creationTimestamp"))
    return next((_moment(text) for text in (*told, *rest) if text), 0.0)


def _moment(text: str | None) -> float:
    when = parse_time(text)
    return when.timestamp() if when else 0.0


def _order(event: KubeObject) -> tuple[float, int]:
    """By time, which has whole seconds only, then as the API server wrote them."""
    version = event["metadata"].get("resourceVersion") or ""
    return _time(event), int(version) if version.isdigit() else 0
