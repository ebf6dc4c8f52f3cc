"""Whole lines from logs that are read in chunks. Pure.

A partial line is kept until the rest comes; a node that appears later is read from its first line.
"""

from __future__ import annotations

from resile.client.job import Batch
from resile.wire.views import LogFile

__all__ = ["LogLines"]


class LogLines:
    """The position in each log, and the beginnings of incomplete lines."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._rests: dict[str, bytes] = {}

    def offset(self, file: LogFile) -> int | None:
        """Return where to continue reading; None once the log was read up to the size in ``file``.

        Only up to that size: a log that grows all the time must not block the others."""
        read = self._offsets.get(file.node, 0)
        return read if read < file.size else None

    def take(self, node: str, piece: bytes) -> Batch:
        """Return the lines that a chunk completes."""
        self._offsets[node] = self._offsets.get(node, 0) + len(piece)
        *lines, self._rests[node] = (self._rests.get(node, b"") + piece).split(b"\n")
        return [(node, _text(line)) for line in lines]

    def rests(self) -> Batch:
        """Return last lines that have no newline."""
        rests, self._rests = self._rests, {}
        return [(node, _text(rest)) for node, rest in rests.items() if rest]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
