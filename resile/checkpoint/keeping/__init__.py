"""Snapshots: a node's training state in memory, held by a snapshot server for its workers.

Under an agent the server runs in the agent's process and outlives workers (`KeeperServer`,
`KeeperClient`); without one a worker holds its own snapshots (`LocalKeeper`). To its users each is
a `SnapshotMemory`. `Keeper` answers requests, `Holdings` is the table of slots, and the package
`peers` copies parts to other nodes.
"""

from resile.checkpoint.keeping.client import KeeperClient
from resile.checkpoint.keeping.errors import KeeperError, KeeperGone, KeeperRefused
from resile.checkpoint.keeping.local import LocalKeeper
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.checkpoint.keeping.messages import (
    Accepted,
    Busy,
    Held,
    Hello,
    Persist,
    Publication,
    Status,
    Target,
)
from resile.checkpoint.keeping.opened import HeldPart
from resile.checkpoint.pair import Begun
from resile.checkpoint.slots import Label, Place

__all__ = [
    "Accepted",
    "Begun",
    "Busy",
    "Held",
    "Hello",
    "KeeperClient",
    "KeeperError",
    "KeeperGone",
    "KeeperRefused",
    "Label",
    "LocalKeeper",
    "HeldPart",
    "Persist",
    "Place",
    "Publication",
    "SnapshotMemory",
    "Status",
    "Target",
]
