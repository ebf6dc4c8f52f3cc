"""Whole lines out of logs that are read piece by piece. Pure.

Half a line is kept until its rest is there; a node that appears later is read from its first line.
"""

from __future__ import annotations

from resile.client.job import Batch
from resile.wire.views import LogFile

__all__ = ["LogLines"]


class LogLines:
    """How far each log was read, and the beginnings of lines that are not complete."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._rests: dict[str, bytes] = {}

    def offset(self, file: LogFile) -> int | None:
        """Where to read on; None once the log was read up to the size it had.

        Up to that size: a log that grows all the time must not keep others out."""
        read = self._offsets.get(file.node, 0)
        return read if read < file.size else None

    def take(self, node: str, piece: bytes) -> Batch:
        """The lines that a piece completes."""
        self._offsets[node] = self._offsets.get(node, 0) + len(piece)
        *lines, self._rests[node] = (self._rests.get(node, b"") + piece).split(b"\n")
        return [(node, _text(line)) for line in lines]

    def rests(self) -> Batch:
        """Last lines that were never ended."""
        rests, self._rests = self._rests, {}
        return [(node, _text(rest)) for node, rest in rests.items() if rest]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
