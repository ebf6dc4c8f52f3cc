"""The messages between the platform and a node's supervisor: one JSON array a line.

The first element is the message's name, the rest its fields. Standard library only, because every
supervisor loads this as it starts. An environment that is not UTF-8 survives: Python's surrogate
escapes are written as JSON escapes and decode to the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = [
    "SpawnNode",
    "Ended",
    "Kill",
    "LineReader",
    "Message",
    "StartRefused",
    "Started",
    "Stop",
    "pack",
]


class SpawnNode(NamedTuple):
    """To the supervisor, as the first message: start this node."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    grace: float
    """The grace period of a stop by SIGTERM to the supervisor."""

    cgroups: list[str]
    """The cgroup folders of the node."""


class Stop(NamedTuple):
    """To the supervisor: send SIGTERM to the node, and SIGKILL after the grace period."""

    grace: float


class Kill(NamedTuple):
    """To the supervisor: send SIGKILL to the whole tree, now."""


class Started(NamedTuple):
    """From the supervisor: the node's program is running."""

    pid: int


class StartRefused(NamedTuple):
    """From the supervisor: the node's program could not be started."""

    why: str


class Ended(NamedTuple):
    """From the supervisor: all processes of the node have ended."""

    code: int
    """The exit code of the node's own process; negative for a signal."""

    stop_ordered: bool
    """True if a stop was ordered before it ended."""


Message: TypeAlias = SpawnNode | Stop | Kill | Started | StartRefused | Ended
_BY_NAME: dict[str, type[Message]] = {
    kind.__name__: kind for kind in (SpawnNode, Stop, Kill, Started, StartRefused, Ended)
}


def pack(message: Message) -> bytes:
    """Encode a message as a line."""
    return json.dumps([type(message).__name__, *message]).encode() + b"\n"


class LineReader:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, *fields = json.loads(line)
            yield _BY_NAME[name](*fields)
