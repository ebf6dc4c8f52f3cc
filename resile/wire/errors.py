"""What can go wrong between two peers.

WireError
├── Unreachable      nothing answers there (yet)
│   └── NoAnswer     something may listen there, but says nothing
├── AddressInUse     another program has the address where a master was to be started
├── RefusedByPeer    the other side said no, with its reason; ``final`` when asking again is futile
│   └── UnprovenPeer what listens there did not prove that it is this job's master
├── Disconnected     the connection was there and is gone
├── TooLong          an answer was longer than it may be (``answer_size``)
├── ProtocolError    the other side sent a message that cannot be at this point
└── BadFrame         the other side sent what is no message of ours
"""

from __future__ import annotations

UNPROVEN = "did not prove that it knows the job's token"
"""Said of whoever listens at a master's endpoint."""


class WireError(Exception):
    """Base of all errors between agent and master."""


class Unreachable(WireError):
    """Nothing accepts connections at the endpoint."""


class NoAnswer(Unreachable):
    """Nobody said anything in time: a dark network, a stopped master, a program that listens."""


class AddressInUse(WireError):
    """A master cannot be started, because another program has its address."""


class RefusedByPeer(WireError):
    """The peer answered and said no."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class UnprovenPeer(RefusedByPeer):
    """Whoever listens at the endpoint did not prove to be this job's master."""


class Disconnected(WireError):
    """An established connection is gone."""


class BadFrame(WireError):
    """A frame that does not decode to a message."""


class ProtocolError(WireError):
    """A message out of turn: the peer and this node do not agree on what was said before."""
