"""Framing of messages on the stream between agent and nursery.

A frame is a four-byte length and that many bytes of JSON. Descriptors are attached to the first
bytes of their frame; the kernel may deliver them with any part of the stream, but never out of
order, so the receiver queues them and each message takes its own from the front. Both ends are ours
and started together: a frame that cannot be decoded is a bug and raises.
"""

import json
import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator

from .messages import (
    DESCRIPTORS,
    Born,
    Echo,
    Exited,
    HostStore,
    Importing,
    Message,
    OpenStore,
    Prepare,
    Ready,
    Refused,
    Signal,
    Spawn,
    StoreOpened,
)

_LENGTH = struct.Struct("!I")

RECEIVE_BYTES = 1 << 16
RECEIVE_DESCRIPTORS = 64

_TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        Prepare,
        Spawn,
        OpenStore,
        HostStore,
        Signal,
        Echo,
        Importing,
        Ready,
        Born,
        StoreOpened,
        Refused,
        Exited,
    )
}


def pack(message: Message) -> bytes:
    """Return the frame of a message."""
    body = json.dumps([type(message).__name__, *message]).encode("ascii")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Turns received bytes and descriptors back into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def feed(self, data: bytes, descriptors: Iterable[int] = ()) -> None:
        self._bytes += data
        self._descriptors.extend(descriptors)

    def messages(self) -> Iterator[tuple[Message, list[int]]]:
        """Yield every complete message with its descriptors."""
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            name, *fields = json.loads(bytes(self._bytes[_LENGTH.size : end]))
            del self._bytes[:end]
            kind = _TYPES[name]
            count = DESCRIPTORS.get(kind, 0)
            yield kind(*fields), [self._descriptors.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close the descriptors of an incomplete message."""
        for descriptor in self._descriptors:
            os.close(descriptor)
