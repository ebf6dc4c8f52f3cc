"""Lines of the nodes' output as they are written, from wherever it can be read.

What is asked is only "which logs are there" and "what comes after this offset": of the files, or
of a master. Half a line is kept until its rest is there; a node that appears later is followed
from its first line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from resile.wire.views import LogFile

__all__ = ["LogFollower", "LogSource", "until_interrupted"]

INTERRUPTED = 130


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C is how one stops following: no complaint, and the usual exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


class LogSource(Protocol):
    """Somewhere output can be read."""

    def log_files(self) -> list[LogFile]:
        """Whose output there is."""

    def log(self, node: str, *, offset: int = 0) -> bytes:
        """A piece of a node's output; empty at its end."""


class LogFollower:
    """Remembers how far each log was read."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._offsets: dict[str, int] = {}
        self._rests: dict[str, bytes] = {}

    def lines(self) -> Iterator[tuple[str, str]]:
        """What was written since the last call: the node's name and a line, a log at a time."""
        for file in self._source.log_files():
            if file.size > self._offsets.get(file.node, 0):
                yield from self._read(file)

    def rests(self) -> Iterator[tuple[str, str]]:
        """Last lines that were never ended."""
        for node, rest in self._rests.items():
            if rest:
                yield node, _text(rest)
        self._rests.clear()

    def _read(self, file: LogFile) -> Iterator[tuple[str, str]]:
        """Up to the size the file had: one that grows all the time must not keep others out."""
        node = file.node
        while self._offsets.get(node, 0) < file.size:
            try:
                piece = self._source.log(node, offset=self._offsets.get(node, 0))
            except FileNotFoundError:
                return  # the job was deleted meanwhile
            if not piece:
                return
            self._offsets[node] = self._offsets.get(node, 0) + len(piece)
            *lines, self._rests[node] = (self._rests.get(node, b"") + piece).split(b"\n")
            yield from ((node, _text(line)) for line in lines)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
