"""Which of many things told become Kubernetes Events, and which of those are one and the same.

Events are kept by the API server for an hour and read by people. So what is said again is counted
on the event that says it; a reason that comes with ever new messages is folded into one event that
shows the latest; and one object cannot fill the list: past a burst it gets an event every so often.
Pure: the time is given, and what to do is returned.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["Correlator", "EventLimits", "Note", "Recent", "Running"]

FOLDED = "(combined from similar events): "
"""As Kubernetes' own components say it."""


@dataclass(frozen=True)
class EventLimits:
    """How much is said about one object."""

    different: int = 10
    """Messages of one reason within ``fold_seconds`` before they are folded."""

    fold_seconds: float = 600.0
    burst: int = 100
    """Events about one object at once. Kubernetes takes 25; a job's life is told here, and each of
    its rounds takes several."""

    refill_seconds: float = 10.0
    """For one more event above the burst."""

    remembered: int = 512
    """Events, reasons and objects of one job of which anything is remembered; the longest unused
    go first."""


@dataclass(frozen=True)
class Note:
    """Something told about an object."""

    involved: KubeObject
    """As an Event's ``involvedObject``."""

    reason: str
    message: str
    warning: bool
    at: float
    """Seconds since the epoch."""


@dataclass
class Running:
    """An event that is there, or is about to be, and how often it was told."""

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


class Recent(Generic[K, V]):
    """The latest used of many."""

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


class Correlator:
    """Remembers what was told lately."""

    def __init__(self, limits: EventLimits) -> None:
        self._limits = limits
        self._reasons: Recent[Hashable, _Reason] = Recent(limits.remembered)
        self._allowances: Recent[Hashable, _Allowance] = Recent(limits.remembered)
        self._running: Recent[Hashable, Running] = Recent(limits.remembered)

    def admit(self, note: Note, *, now: float) -> Note | None:
        """The note, perhaps as one of many of its kind; None if its object had enough of them.

        ``now`` is the caller's own clock: when something happened is told by those whose events
        are counted here.
        """
        if not self._allowed(note, now):
            return None
        return self._folded(note, now)

    def running(self, note: Note, *, name: str) -> Running:
        """The event that tells an admitted note: the one there is, or a new one of that name."""
        return self._running.get(_same(note), lambda: Running(name))

    def forget(self, note: Note) -> None:
        """The event that tells it is not there any more."""
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
    """Notes that one event tells. Folded ones differ in their message and are the same."""
    message = FOLDED if note.message.startswith(FOLDED) else note.message
    return _about(note), note.reason, note.warning, message
