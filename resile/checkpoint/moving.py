"""A slot's bytes over a connection: straight from memory to the socket, and back."""

from __future__ import annotations

import os
import socket

from resile.checkpoint.slots import BEGIN

__all__ = ["IDLE_LIMIT", "pull", "push"]

IDLE_LIMIT = 30.0
"""Seconds in which at least one byte has to move: a peer that is gone says nothing at all."""

_AT_ONCE = 1 << 20


def push(slot: int, connection: socket.socket, *, length: int) -> None:
    """Send a part; raises OSError when the other side is gone."""
    connection.settimeout(IDLE_LIMIT)
    with open(slot, "rb", closefd=False) as file:
        sent = connection.sendfile(file, offset=BEGIN, count=length) if length else 0
    if sent != length:
        raise ConnectionError(f"only {sent} of {length} bytes could be sent")


def pull(slot: int, connection: socket.socket, *, length: int) -> None:
    """Receive a part into a slot that is ours alone; raises OSError when less comes.

    Through a small buffer that stays in a CPU's cache: receiving into mapped memory takes half as
    long again, for the pages that have to be entered into a page table nobody will use.
    """
    connection.settimeout(IDLE_LIMIT)
    buffer = memoryview(bytearray(min(length, _AT_ONCE)))
    come = 0
    while come < length:
        count = connection.recv_into(buffer[: length - come])
        if count == 0:
            raise ConnectionError(f"the connection ended after {come} of {length} bytes")
        _put(slot, buffer[:count], BEGIN + come)
        come += count


def _put(slot: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.pwrite(slot, data, offset)
        data, offset = data[count:], offset + count
