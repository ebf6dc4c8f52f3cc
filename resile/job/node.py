"""The identity of a node, and the phases of its life.

A node has a **rank**, the slot it fills in its role, and an **id**, which grows through the whole
job and is never used twice: a replacement takes a new id and the old rank. A late message of a dead
node is recognised by its id. Names of nodes are made in ``naming``.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["LIVE", "Node", "NodePhase"]


class NodePhase(str, Enum):
    """The phase of a node, or of the rank it fills."""

    WAITING = "Waiting"
    """The rank needs a node and has none yet: it waits for another role or a back-off."""

    PENDING = "Pending"
    """Requested, not running yet: no room, or still being started."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """Ended and not replaced. In a platform's report: ended without success."""

    STOPPED = "Stopped"
    """Stopped on purpose: scaled down, suspended, or its job has finished."""


LIVE = frozenset({NodePhase.PENDING, NodePhase.RUNNING})
"""The phases in which a node exists and may run."""


class Node(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The identity of one node, which never changes."""

    role: Annotated[str, Meta(description="The role it belongs to.")]
    rank: Annotated[int, Meta(description="Its slot in the role.")]
    id: Annotated[int, Meta(description="Never used twice in a job.")]
    name: Annotated[str, Meta(description="On a cluster, the name of its pod.")]
