"""Errors between two peers.

WireError
├── Unreachable      nothing accepts connections at the endpoint (yet)
│   └── NoAnswer     something may listen there, but does not answer
├── AddressInUse     another program has the address where a master was to be started
├── RefusedByPeer    the peer refused, with its reason; ``final`` when a retry is futile
│   └── UnprovenPeer the peer did not prove that it is this job's master
├── Disconnected     an established connection is lost
├── TooLong          an answer exceeds its limit
├── ProtocolError    the peer sent a message that is not valid at this point
└── BadFrame         the peer sent a frame that is not a message
"""

from __future__ import annotations

UNPROVEN = "did not prove that it knows the job's token"
"""The end of a sentence about the server at a master's endpoint."""


class WireError(Exception):
    """Base of all errors between agent and master."""


class Unreachable(WireError):
    """Nothing accepts connections at the endpoint."""


class NoAnswer(Unreachable):
    """No answer in time: a broken network, a stopped master, or another program."""


class AddressInUse(WireError):
    """A master cannot be started, because another program has its address."""


class RefusedByPeer(WireError):
    """The peer answered with a refusal."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class UnprovenPeer(RefusedByPeer):
    """The server at the endpoint did not prove that it is this job's master."""


class Disconnected(WireError):
    """An established connection is lost."""


class BadFrame(WireError):
    """A frame that does not decode to a message."""


class ProtocolError(WireError):
    """A message is not valid in the current state: the peer and this node disagree on it."""
