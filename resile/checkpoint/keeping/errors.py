"""What can go wrong between a worker and its keeper, and between keepers.

CheckpointError
└── KeeperError
    ├── KeeperGone        the keeper does not answer: it is dead or was never there
    ├── KeeperRefused     it answered that it will not: late, unknown part, no peer
    └── PeerTrouble       another node's keeper: gone, wrong token, no room, torn
"""

from __future__ import annotations

from resile.checkpoint.errors import CheckpointError

__all__ = ["KeeperError", "KeeperGone", "KeeperRefused", "PeerTrouble"]


class KeeperError(CheckpointError):
    """Base of all."""


class KeeperGone(KeeperError):
    """The keeper does not answer; snapshots in its memory are lost to this worker."""


class KeeperRefused(KeeperError):
    """The keeper says no; the text says why."""


class PeerTrouble(KeeperError):
    """Another node's keeper could not be reached, refused, or sent less than it promised."""
