"""Frames to bytes and back. msgpack with types and bounds checked on decoding; never pickle."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from resile.decoding import DecodeError, MsgpackDecoder
from resile.wire.errors import BadFrame
from resile.wire.messages import PROTOCOL, AgentFrame, FromAgent, FromMaster, MasterFrame

MAX_FRAME = 256 * 1024
"""No honest frame comes near it: the largest carries a few tracebacks."""

LONGEST_COMPLAINT = 300
"""What is wrong with a frame may quote the frame; that much of it helps, more does not."""

T = TypeVar("T")


class _AnyHello(msgspec.Struct, frozen=True, tag="Hello"):
    """What a Hello has in common in all versions."""

    protocol: int = PROTOCOL


class _AnyGreeting(msgspec.Struct, frozen=True):
    body: _AnyHello


_encoder = msgspec.msgpack.Encoder()
_agent_frames = MsgpackDecoder[AgentFrame](AgentFrame)
_master_frames = MsgpackDecoder[MasterFrame](MasterFrame)
_greetings = MsgpackDecoder[_AnyGreeting](_AnyGreeting)


def encode_from_agent(seq: int, body: FromAgent) -> bytes:
    """One frame of an agent's."""
    return _encoder.encode(AgentFrame(seq, body))


def encode_from_master(seq: int, body: FromMaster) -> bytes:
    """One frame of the master's."""
    return _encoder.encode(MasterFrame(seq, body))


def decode_from_agent(data: bytes) -> AgentFrame:
    """Raise :class:`BadFrame` for anything that is not an agent's frame."""
    return _decode(_agent_frames, data)


def decode_from_master(data: bytes) -> MasterFrame:
    """Raise :class:`BadFrame` for anything that is not a master's frame."""
    return _decode(_master_frames, data)


def spoken_protocol(data: bytes) -> int | None:
    """The version in a Hello of whatever version; None for what is no Hello at all."""
    try:
        return _decode(_greetings, data).body.protocol
    except BadFrame:
        return None


def _decode(decoder: MsgpackDecoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except DecodeError as error:
        complaint = str(error)[:LONGEST_COMPLAINT]
        raise BadFrame(f"not a message of this protocol: {complaint}") from None
