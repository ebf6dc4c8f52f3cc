"""Who holds a node's snapshots: a keeper, and the workers that ask it.

Under an agent the keeper is a service in the agent's process and outlives workers
(`KeeperServer`, `KeeperClient`); without one a worker keeps its own (`LocalKeeper`). Both are a
`SnapshotMemory` to who uses them. The modules: `messages` is what is asked and answered,
`holdings` the memory itself, `keeper` the answers, `opened` and `headers` what a worker gets,
`neighbourhood` what a keeper wants of other nodes, `peers` the copies there.
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
