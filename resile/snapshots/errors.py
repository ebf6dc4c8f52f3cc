"""Errors of a snapshot server, to a worker or to another node's server.

CheckpointError
└── SnapshotError
    ├── SnapshotServerGone        the server does not answer: it is dead or was never started
    ├── SnapshotRequestRefused     the server refused a request: old round, unknown part, no peer
    └── PeerError       another node's server: gone, wrong token, no room, torn transfer
"""

from __future__ import annotations

from resile.checkpoint.errors import CheckpointError

__all__ = ["SnapshotError", "SnapshotServerGone", "SnapshotRequestRefused", "PeerError"]


class SnapshotError(CheckpointError):
    """Base class."""


class SnapshotServerGone(SnapshotError):
    """The snapshot server does not answer; this worker cannot reach the snapshots it holds."""


class SnapshotRequestRefused(SnapshotError):
    """The snapshot server refused a request; the text gives the reason."""


class PeerError(SnapshotError):
    """Another node's server could not be reached, refused, or sent less than announced."""
