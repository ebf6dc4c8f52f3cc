"""What the platform and a node's warden say to each other: one JSON array a line.

The first word is the message's name, the rest its fields. Standard library only, because every
warden loads this as it starts. An environment that is not UTF-8 survives: what Python made of the
stray bytes is written as escapes and comes back the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = [
    "Bear",
    "Ended",
    "Kill",
    "LineReader",
    "Message",
    "Refused",
    "Started",
    "Stop",
    "pack",
]


class Bear(NamedTuple):
    """To the warden, first of all: start this node."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    grace: float
    """For a stop that somebody other than the platform asks for."""

    cgroups: list[str]
    """Folders of the cgroups that the node is to be in."""


class Stop(NamedTuple):
    """To the warden: SIGTERM to the node, and an end by force when the grace is over."""

    grace: float


class Kill(NamedTuple):
    """To the warden: SIGKILL to the whole tree, now."""


class Started(NamedTuple):
    """From the warden: the node's program runs."""

    pid: int


class Refused(NamedTuple):
    """From the warden: the node's program could not be started."""

    why: str


class Ended(NamedTuple):
    """From the warden: nothing of the node is left."""

    code: int
    """Of the node's own process; negative for a signal."""

    told: bool
    """Whether it was told to end before it did."""


Message: TypeAlias = Bear | Stop | Kill | Started | Refused | Ended
_BY_NAME: dict[str, type[Message]] = {
    kind.__name__: kind for kind in (Bear, Stop, Kill, Started, Refused, Ended)
}


def pack(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps([type(message).__name__, *message]).encode() + b"\n"


class LineReader:
    """Cuts what arrives into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, *fields = json.loads(line)
            yield _BY_NAME[name](*fields)
