"""Going on with a log where it broke off: which lines of what is read again are new. Pure.

A log can be asked for from some seconds ago on, not from a line on. So a reader that lost its
connection asks for a little more than it missed, and leaves out what it has had: the first lines
of the new answer that are the last of the old one.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Overlap"]

REMEMBERED = 2000
"""Lines: more than a program should print in the seconds that are read twice."""


class Overlap:
    """Remembers the last lines of one log, and when each was read."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._seen: deque[tuple[float, bytes]] = deque(maxlen=remembered)
        self._known: list[bytes] = []
        self._starts: list[int] = []
        self._held: list[bytes] = []
        self._longest = 0

    @property
    def last(self) -> float | None:
        """When the last line was read; None if there was none."""
        return self._seen[-1][0] if self._seen else None

    def again(self, since: float) -> None:
        """What comes now may begin with any of the lines that were read after ``since``."""
        self._known = [line for when, line in self._seen if when >= since]
        self._starts = list(range(len(self._known)))
        self._held, self._longest = [], 0

    def fresh(self, line: bytes, now: float) -> list[bytes]:
        """The lines that are known to be new with this one.

        Where it can be one overlap or another the longest counts, so lines are held back as long
        as a longer one is possible: rather a repeated line too few than many twice.
        """
        if not self._starts:
            self._seen.append((now, line))
            return [line]
        at = len(self._held)
        self._held.append(line)
        self._starts = [start for start in self._starts if self._known[start + at] == line]
        if self._starts and self._starts[-1] + at + 1 == len(self._known):
            self._starts.pop()
            self._longest = at + 1
        return [] if self._starts else self._settled(now)

    def rest(self, now: float) -> list[bytes]:
        """What was held back, now that nothing comes any more."""
        self._starts = []
        if not self._longest:
            self._held = []  # it agreed with lines that were read, as far as it went
        return self._settled(now)

    def _settled(self, now: float) -> list[bytes]:
        fresh, self._held = self._held[self._longest :], []
        self._seen.extend((now, line) for line in fresh)
        return fresh
