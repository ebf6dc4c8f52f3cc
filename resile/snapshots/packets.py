"""Messages with file descriptors over Unix sockets, between the processes of a node's snapshots.

A packet (SOCK_SEQPACKET) is one msgpack message and its descriptors; the kernel keeps packets apart
and descriptors with them. Never pickle.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from resile.decoding import DecodeError, MsgpackDecoder

__all__ = ["LARGEST_PACKET", "receive", "send"]

LARGEST_PACKET = 128 * 1024
"""Linux sends up to about 200 KiB in one packet; an inventory of a thousand parts needs 100 KiB."""

MOST_DESCRIPTORS = 250
"""The kernel allows 253 in one packet."""

_encoder = msgspec.msgpack.Encoder()

T = TypeVar("T")


def send(line: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Send one message; the sender keeps its descriptors."""
    data = _encoder.encode(message)
    if len(data) > LARGEST_PACKET or len(descriptors) > MOST_DESCRIPTORS:
        raise ValueError(f"a message of {len(data)} bytes with {len(descriptors)} descriptors")
    if descriptors:
        socket.send_fds(line, [data], list(descriptors))
    else:
        line.send(data)


def receive(line: socket.socket, decoder: MsgpackDecoder[T]) -> tuple[T, list[int]] | None:
    """Receive a message and its descriptors, which the caller must close; None at the end.

    Raises :class:`~resile.decoding.DecodeError` for an invalid message.
    """
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
    flags = socket.MSG_CMSG_CLOEXEC
    data, ancillary, _, _ = line.recvmsg(LARGEST_PACKET, room, flags)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    if not data:
        return None
    try:
        return decoder.decode(data), list(descriptors)
    except DecodeError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
