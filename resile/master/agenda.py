"""Deadlines of groups in a heap; each group has at most one.

A job may have thousands of groups of one node each. Scanning all of them for every message would
cost O(n) each time; with the heap a change costs O(log n).
"""

from __future__ import annotations

import heapq

__all__ = ["Agenda"]

SLACK = 64
"""Outdated entries that may stay in the heap beyond one for each group."""


class Agenda:
    """Deadlines by name. A heap entry that is not the latest of its name is outdated."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, when: float | None) -> None:
        """Set the deadline of a name; None removes it."""
        if when is None:
            self._when.pop(name, None)
        elif self._when.get(name) != when:
            self._when[name] = when
            heapq.heappush(self._heap, (when, name))
        if len(self._heap) > 2 * len(self._when) + SLACK:
            self._heap = [(at, one) for one, at in self._when.items()]
            heapq.heapify(self._heap)

    def next(self) -> float | None:
        """Return the earliest deadline."""
        while self._heap and self._when.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> list[str]:
        """Remove every deadline that is over; return the names, the earliest first."""
        due = []
        while (earliest := self.next()) is not None and earliest <= now:
            _, name = heapq.heappop(self._heap)
            del self._when[name]
            due.append(name)
        return due
