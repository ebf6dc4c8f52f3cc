"""The messages between snapshot servers: length-prefixed msgpack on TCP, with part data in between.

Frames are small and bounded, so that no client can make a server read more than it wants to; the
bytes of a part follow a frame that announces their number.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Annotated, Any, TypeVar

import msgspec

from resile.decoding import DecodeError, MsgpackDecoder
from resile.snapshots.errors import PeerError
from resile.snapshots.slots import Label

__all__ = [
    "Answer",
    "AnswerDecoder",
    "Arrived",
    "PeerMessage",
    "PeerMessageDecoder",
    "Challenge",
    "Coming",
    "GoOn",
    "HeaderComing",
    "HeadersWanted",
    "Kept",
    "No",
    "Offer",
    "Proof",
    "Wanted",
    "Whole",
    "receive",
    "receive_exactly",
    "send",
]

LARGEST_FRAME = 64 * 1024
_LENGTH = struct.Struct("!I")
_AT_ONCE = 1 << 20
"""Bytes per read: memory is allocated as bytes arrive, not as they are announced."""

T = TypeVar("T")
Bytes = Annotated[int, msgspec.Meta(ge=0)]
"""A number of bytes."""


class Challenge(msgspec.Struct, frozen=True, tag=True):
    """The called side's nonce; the first frame of a connection."""

    nonce: bytes


class Proof(msgspec.Struct, frozen=True, tag=True):
    """Proof of knowing the job's token, without sending it."""

    nonce: bytes
    code: bytes


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Offer a copy of a part. If accepted, its bytes follow, then :class:`Whole`."""

    label: Label
    size: Bytes
    again: bool = False
    """The part was saved again: a copy that the other side may have is out of date."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Request a part."""

    label: Label


class HeadersWanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Request the headers of parts, one after the other."""

    labels: tuple[Label, ...]


class GoOn(msgspec.Struct, frozen=True, tag=True):
    """The offer is accepted: send the part."""


class Coming(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The part's bytes follow."""

    size: Bytes


class HeaderComing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first bytes of a part follow, up to the end of its header."""

    length: Bytes


class Arrived(msgspec.Struct, frozen=True, tag=True):
    """All bytes of the part have arrived. Until then the kernel may still read them from the
    sender's memory, so that a change there would change them."""


class Whole(msgspec.Struct, frozen=True, tag=True):
    """The sender confirms that the part did not change before it arrived."""


class Kept(msgspec.Struct, frozen=True, tag=True):
    """The part is held here."""


class No(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The request was refused, with the reason."""

    reason: str


PeerMessage = Challenge | Proof | Offer | Wanted | HeadersWanted | Arrived | Whole
Answer = Challenge | Proof | GoOn | Coming | HeaderComing | Arrived | Kept | No

PeerMessageDecoder = MsgpackDecoder[PeerMessage](PeerMessage)
AnswerDecoder = MsgpackDecoder[Answer](Answer)
_encoder = msgspec.msgpack.Encoder()


def send(connection: socket.socket, message: Any) -> None:
    """Send one frame; raises OSError."""
    data = _encoder.encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(
    connection: socket.socket, decoder: MsgpackDecoder[T], *, deadline: float | None = None
) -> T:
    """Receive one frame, and no byte beyond it.

    ``deadline``: of the monotonic clock, for the whole frame, however slowly its bytes arrive.
    Raises OSError when the other side is gone, :class:`PeerError` for an invalid frame.
    """
    (length,) = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size, deadline=deadline))
    if length > LARGEST_FRAME:
        raise PeerError(f"a frame of {length} bytes is too large; at most {LARGEST_FRAME}")
    try:
        return decoder.decode(receive_exactly(connection, length, deadline=deadline))
    except DecodeError as error:
        raise PeerError(f"not a message of a snapshot server: {error}") from None


def receive_exactly(
    connection: socket.socket, count: int, *, deadline: float | None = None
) -> bytes:
    """Receive ``count`` bytes; raises OSError when the other side is gone, or at the deadline."""
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
        piece = connection.recv(min(count - len(data), _AT_ONCE))
        if not piece:
            raise ConnectionError("connection closed")
        data += piece
    return bytes(data)
