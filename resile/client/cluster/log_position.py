"""The position up to which a log was read, so that a broken connection resumes exactly there. Pure.

Every line is requested with its timestamp, and a reader that reconnects requests what was written
since the last one. That includes lines it has read: an API server passes on whole seconds only.
They are recognised by their timestamps, of which those of the last second are kept.

Kubelets before 1.26 write timestamps also into the middle of lines of many kilobytes.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone

__all__ = ["LogPosition"]

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
"""RFC 3339, as kubelets write it."""


class LogPosition:
    """The position up to which one container's log was read."""

    def __init__(self) -> None:
        self._second: datetime | None = None
        self._read: Counter[bytes] = Counter()
        self._again: Counter[bytes] = Counter()

    @property
    def since(self) -> str | None:
        """The time from which to request the log; None: from the beginning."""
        return None if self._second is None else f"{self._second:%Y-%m-%dT%H:%M:%SZ}"

    def rewind(self) -> None:
        """Prepare for lines that were requested from ``since`` on, some of them read before."""
        self._again = self._read.copy()

    def fresh(self, line: bytes) -> bytes | None:
        """Return the text of a line with a timestamp; None if it was read before.

        A line without a timestamp is the kubelet's, not the program's, and always new.
        """
        stamp, _, text = line.partition(b" ")
        second = _second_of(stamp)
        if second is None:
            return line
        if self._again[stamp]:
            self._again[stamp] -= 1
            return None
        if self._second is None or second > self._second:
            self._second, self._read = second, Counter()
        if second == self._second:  # stdout and stderr may overtake each other
            self._read[stamp] += 1
        return text


def _second_of(stamp: bytes) -> datetime | None:
    found = STAMP.fullmatch(stamp)
    if found is None:
        return None
    zone = found[2].replace(b"Z", b"+00:00")
    try:
        return datetime.fromisoformat((found[1] + zone).decode()).astimezone(timezone.utc)
    except ValueError:
        return None
