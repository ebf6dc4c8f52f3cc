"""Errors of a snapshot server, to a worker or to another node's server.

CheckpointError
└── KeeperError
    ├── KeeperGone        the server does not answer: it is dead or was never started
    ├── KeeperRefused     the server refused a request: old round, unknown part, no peer
    └── PeerTrouble       another node's server: gone, wrong token, no room, torn transfer
"""

from __future__ import annotations

from resile.checkpoint.errors import CheckpointError

__all__ = ["KeeperError", "KeeperGone", "KeeperRefused", "PeerTrouble"]


class KeeperError(CheckpointError):
    """Base class."""


class KeeperGone(KeeperError):
    """The snapshot server does not answer; this worker cannot reach the snapshots it holds."""


class KeeperRefused(KeeperError):
    """The snapshot server refused a request; the text gives the reason."""


class PeerTrouble(KeeperError):
    """Another node's server could not be reached, refused, or sent less than announced."""
