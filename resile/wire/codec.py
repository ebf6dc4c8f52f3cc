"""Frames to bytes and back. msgpack with types checked on decoding; never pickle."""

from __future__ import annotations

import msgspec

from resile.wire.errors import BadFrame
from resile.wire.messages import AgentFrame, FromAgent, FromMaster, MasterFrame

MAX_FRAME = 256 * 1024
"""No honest frame comes near it: the largest carries a few tracebacks."""

_encoder = msgspec.msgpack.Encoder()
_agent_frames = msgspec.msgpack.Decoder(AgentFrame)
_master_frames = msgspec.msgpack.Decoder(MasterFrame)


def encode_from_agent(seq: int, body: FromAgent) -> bytes:
    """One frame of an agent's."""
    return _encoder.encode(AgentFrame(seq, body))


def encode_from_master(seq: int, body: FromMaster) -> bytes:
    """One frame of the master's."""
    return _encoder.encode(MasterFrame(seq, body))


def decode_from_agent(data: bytes) -> AgentFrame:
    """Raise :class:`BadFrame` for anything that is not an agent's frame."""
    try:
        return _agent_frames.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadFrame(f"not a message of this protocol: {error}") from None


def decode_from_master(data: bytes) -> MasterFrame:
    """Raise :class:`BadFrame` for anything that is not a master's frame."""
    try:
        return _master_frames.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadFrame(f"not a message of this protocol: {error}") from None
