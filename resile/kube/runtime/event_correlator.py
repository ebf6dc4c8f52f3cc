"""Deduplicate, aggregate and rate-limit Kubernetes Events, as client-go's EventCorrelator does.

The API server keeps Events for an hour, and people read them. So a repeated message increments the
count of its Event; a reason with ever new messages is aggregated into one Event that shows the
latest; and one object cannot fill the list: after a burst it gets an Event every so often.
Pure: the time is passed in, and what to do is returned.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from resile.kube.resources import KubeObject

__all__ = ["EventCorrelator", "EventLimits", "Note", "LruDict", "ActiveEvent"]

FOLDED = "(combined from similar events): "
"""The prefix that Kubernetes' own components use."""


@dataclass(frozen=True)
class EventLimits:
    """Limits on the Events of one object."""

    different: int = 10
    """Messages of one reason within ``fold_seconds`` before they are aggregated."""

    fold_seconds: float = 600.0
    burst: int = 100
    """Events about one object in a burst. Kubernetes allows 25; these are the history of a whole
    job, and each of its rounds takes several."""

    refill_seconds: float = 10.0
    """Seconds for one more event above the burst."""

    remembered: int = 512
    """Events, reasons and objects remembered for one job; the least recently used are dropped."""


@dataclass(frozen=True)
class Note:
    """Something to record about an object."""

    involved: KubeObject
    """As an Event's ``involvedObject``."""

    reason: str
    message: str
    warning: bool
    at: float
    """Seconds since the epoch."""


@dataclass
class ActiveEvent:
    """An Event that exists or is about to be created, and its count."""

    name: str
    count: int = 0


@dataclass
class _Reason:
    began: float
    messages: set[str] = field(default_factory=set)


@dataclass
class _Allowance:
    left: float
    at: float


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruDict(Generic[K, V]):
    """A dict that keeps the most recently used entries."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return self._kept[key]

    def forget(self, key: K) -> None:
        self._kept.pop(key, None)


class EventCorrelator:
    """The recent Events of one job."""

    def __init__(self, limits: EventLimits) -> None:
        self._limits = limits
        self._reasons: LruDict[Hashable, _Reason] = LruDict(limits.remembered)
        self._allowances: LruDict[Hashable, _Allowance] = LruDict(limits.remembered)
        self._running: LruDict[Hashable, ActiveEvent] = LruDict(limits.remembered)

    def admit(self, note: Note, *, now: float) -> Note | None:
        """Return the note, aggregated with similar ones if need be; None if its object is over
        its limit.

        ``now`` is the caller's own clock: the times of the notes come from others.
        """
        if not self._allowed(note, now):
            return None
        return self._folded(note, now)

    def running(self, note: Note, *, name: str) -> ActiveEvent:
        """Return the Event of an admitted note: the existing one, or a new one of that name."""
        return self._running.get(_same(note), lambda: ActiveEvent(name))

    def forget(self, note: Note) -> None:
        """Forget the Event of a note: it no longer exists."""
        self._running.forget(_same(note))

    def _allowed(self, note: Note, now: float) -> bool:
        limits = self._limits
        key = _about(note)
        allowance = self._allowances.get(key, lambda: _Allowance(limits.burst, now))
        earned = max(0.0, now - allowance.at) / limits.refill_seconds
        allowance.left = min(float(limits.burst), allowance.left + earned)
        allowance.at = now
        if allowance.left < 1.0:
            return False
        allowance.left -= 1.0
        return True

    def _folded(self, note: Note, now: float) -> Note:
        key = (_about(note), note.reason, note.warning)
        reason = self._reasons.get(key, lambda: _Reason(now))
        if now - reason.began > self._limits.fold_seconds:
            reason.began = now
            reason.messages.clear()
        if len(reason.messages) < self._limits.different:
            reason.messages.add(note.message)
        if note.message in reason.messages:
            return note
        return replace(note, message=f"{FOLDED}{note.message}")


def _about(note: Note) -> Hashable:
    involved = note.involved
    return (
        involved.get("uid"),
        involved.get("kind"),
        involved.get("namespace"),
        involved.get("name"),
    )


def _same(note: Note) -> Hashable:
    """The key of the Event of a note. Aggregated notes share one, whatever their messages."""
    message = FOLDED if note.message.startswith(FOLDED) else note.message
    return _about(note), note.reason, note.warning, message
