"""What keepers say to each other: length-prefixed msgpack on TCP, with a part's bytes in between.

A frame is small and bounded, so that nobody can make a keeper take in more than it wants to; the
bytes of a part follow a frame that says how many they are.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Annotated, Any, TypeVar

import msgspec

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.slots import Label
from resile.decoding import DecodeError, MsgpackDecoder

__all__ = [
    "Answer",
    "AnswerDecoder",
    "Arrived",
    "Ask",
    "AskDecoder",
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
"""Memory is taken as bytes arrive, not as they are announced."""

T = TypeVar("T")
Bytes = Annotated[int, msgspec.Meta(ge=0)]
"""How many there are."""


class Challenge(msgspec.Struct, frozen=True, tag=True):
    """The first word, of who was called."""

    nonce: bytes


class Proof(msgspec.Struct, frozen=True, tag=True):
    """That somebody knows the job's token, without saying it."""

    nonce: bytes
    code: bytes


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Will you keep this part? Its bytes follow if so, then that they were whole."""

    label: Label
    size: Bytes
    again: bool = False
    """It was saved once more: what the other side may have of it is out of date."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Please send this part."""

    label: Label


class HeadersWanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Please send what these parts say of themselves, one after the other."""

    labels: tuple[Label, ...]


class GoOn(msgspec.Struct, frozen=True, tag=True):
    """Send."""


class Coming(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The part's bytes follow."""

    size: Bytes


class HeaderComing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first bytes of a part follow, as far as its header goes."""

    length: Bytes


class Arrived(msgspec.Struct, frozen=True, tag=True):
    """All bytes of the part are here. Until then they may be on their way straight from the
    sender's memory, so that a change of it would still change them."""


class Whole(msgspec.Struct, frozen=True, tag=True):
    """What was sent did not change before it arrived."""


class Kept(msgspec.Struct, frozen=True, tag=True):
    """The part is here."""


class No(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No, and why."""

    reason: str


Ask = Challenge | Proof | Offer | Wanted | HeadersWanted | Arrived | Whole
Answer = Challenge | Proof | GoOn | Coming | HeaderComing | Arrived | Kept | No

AskDecoder = MsgpackDecoder[Ask](Ask)
AnswerDecoder = MsgpackDecoder[Answer](Answer)
_encoder = msgspec.msgpack.Encoder()


def send(connection: socket.socket, message: Any) -> None:
    """Send one frame; raises OSError."""
    data = _encoder.encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(
    connection: socket.socket, decoder: MsgpackDecoder[T], *, deadline: float | None = None
) -> T:
    """The next frame, and not one byte of what comes after it.

    ``deadline``: of the monotonic clock, for the whole frame, however slowly its bytes come. Raises
    OSError when the other side is gone, :class:`PeerTrouble` for what is no frame of ours.
    """
    (length,) = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size, deadline=deadline))
    if length > LARGEST_FRAME:
        raise PeerTrouble(f"a frame of {length} bytes; at most {LARGEST_FRAME} are read")
    try:
        return decoder.decode(receive_exactly(connection, length, deadline=deadline))
    except DecodeError as error:
        raise PeerTrouble(f"not a word of a keeper: {error}") from None


def receive_exactly(
    connection: socket.socket, count: int, *, deadline: float | None = None
) -> bytes:
    """So many bytes; raises OSError when the other side is gone before, or the deadline is over."""
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
        piece = connection.recv(min(count - len(data), _AT_ONCE))
        if not piece:
            raise ConnectionError("it hung up")
        data += piece
    return bytes(data)
