"""Zero-copy transfer of a slot over a connection, with sendfile and splice.

Neither side maps the bytes. The sender's kernel sends the slot's own pages, so they must not change
until the other side has them; the receiver's kernel moves the data into a pipe, without a copy, and
from there into the slot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
from collections.abc import Callable, Iterator

from resile.snapshots.slots import BEGIN

__all__ = ["IDLE_LIMIT", "pull", "push"]

IDLE_LIMIT = 30.0
"""Seconds without a single byte before a timeout: a dead peer sends nothing at all."""

_AT_ONCE = 1 << 20

Told = Callable[[], bool]
"""Called after every piece; True to stop there."""


def _never() -> bool:
    return False


def push(
    slot: int,
    connection: socket.socket,
    *,
    length: int,
    begin: int = 0,
    stop: Told = _never,
) -> int:
    """Send a part from ``begin`` on; returns the end offset. Raises OSError when the other side is
    gone."""
    connection.settimeout(IDLE_LIMIT)
    sent = begin
    with open(slot, "rb", closefd=False) as file:
        while sent < length and not stop():
            wanted = min(_AT_ONCE, length - sent)
            count = connection.sendfile(file, offset=BEGIN + sent, count=wanted)
            sent += count
            if count != wanted:
                raise ConnectionError(f"only {sent} of {length} bytes were sent")
    return sent


def pull(
    slot: int,
    connection: socket.socket,
    *,
    length: int,
    begin: int = 0,
    came: Callable[[int], None] = lambda _: None,
    stop: Told = _never,
) -> int:
    """Receive a part from ``begin`` on into an exclusively locked slot; returns the end offset.
    Raises OSError if the connection ends early.

    ``came`` is called after every piece with the number of bytes received.
    """
    connection.settimeout(IDLE_LIMIT)
    come = begin
    with _pipe() as (out, into):
        while come < length and not stop():
            count = _take_in(connection, into, length - come)
            if count == 0:
                raise ConnectionError(f"the connection ended after {come} of {length} bytes")
            _empty(out, slot, count, offset=BEGIN + come)
            come += count
            came(come)
    return come


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """A pipe with a large buffer, if the system's limit for the user allows it."""
    out, into = os.pipe()
    try:
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _AT_ONCE)
        yield out, into
    finally:
        os.close(out)
        os.close(into)


def _take_in(connection: socket.socket, into: int, count: int) -> int:
    """Move received data into the empty pipe; returns 0 at the end of the connection."""
    while True:
        try:
            return os.splice(connection.fileno(), into, min(count, _AT_ONCE))
        except BlockingIOError:
            _await(connection)


def _await(connection: socket.socket) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if not poll.poll(IDLE_LIMIT * 1000):
        raise TimeoutError("timed out")


def _empty(out: int, slot: int, count: int, *, offset: int) -> None:
    while count:
        moved = os.splice(out, slot, count, offset_dst=offset)
        count, offset = count - moved, offset + moved
