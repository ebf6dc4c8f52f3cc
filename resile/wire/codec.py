"""Encoding of frames: msgpack with types and bounds checked on decoding; never pickle."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from resile.decoding import DecodeError, MsgpackDecoder
from resile.wire.errors import BadFrame
from resile.wire.messages import PROTOCOL, AgentFrame, FromAgent, FromMaster, MasterFrame

MAX_FRAME = 256 * 1024
"""Bytes, far above any valid frame: the largest carries a few tracebacks."""

MAX_ERROR_TEXT = 300
"""Characters. An error may quote the frame; more of it would not help."""

T = TypeVar("T")


class _AnyHello(msgspec.Struct, frozen=True, tag="Hello"):
    """The part of a Hello that is the same in all versions."""

    protocol: int = PROTOCOL


class _AnyGreeting(msgspec.Struct, frozen=True):
    body: _AnyHello


_encoder = msgspec.msgpack.Encoder()
_agent_frames = MsgpackDecoder[AgentFrame](AgentFrame)
_master_frames = MsgpackDecoder[MasterFrame](MasterFrame)
_greetings = MsgpackDecoder[_AnyGreeting](_AnyGreeting)


def encode_from_agent(seq: int, body: FromAgent) -> bytes:
    """Encode a frame of an agent."""
    return _encoder.encode(AgentFrame(seq, body))


def encode_from_master(seq: int, body: FromMaster) -> bytes:
    """Encode a frame of the master."""
    return _encoder.encode(MasterFrame(seq, body))


def decode_from_agent(data: bytes) -> AgentFrame:
    """Decode a frame of an agent; raises :class:`BadFrame` for anything else."""
    return _decode(_agent_frames, data)


def decode_from_master(data: bytes) -> MasterFrame:
    """Decode a frame of the master; raises :class:`BadFrame` for anything else."""
    return _decode(_master_frames, data)


def spoken_protocol(data: bytes) -> int | None:
    """Return the version in a Hello of any version; None for anything else."""
    try:
        return _decode(_greetings, data).body.protocol
    except BadFrame:
        return None


def _decode(decoder: MsgpackDecoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except DecodeError as error:
        complaint = str(error)[:MAX_ERROR_TEXT]
        raise BadFrame(f"not a message of this protocol: {complaint}") from None
