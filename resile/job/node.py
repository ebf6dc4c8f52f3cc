"""Who a node is, and where it is in its life.

A node has a **rank**, the slot it fills in its role, and an **id**, which grows through the whole
job and is never used twice: a replacement takes a new id and the old rank. Whatever a dead node
still says can be recognised by its id. How nodes are called is in ``naming``.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["LIVE", "Node", "NodePhase"]


class NodePhase(str, Enum):
    """Where a node, or the rank it fills, is in its life."""

    WAITING = "Waiting"
    """The rank is to be filled and has no node yet: it waits for another role or a back-off."""

    PENDING = "Pending"
    """Asked for, not running yet: no room, or still being started."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """Ended, and not to be replaced. As a platform reports it: ended, and not with success."""

    STOPPED = "Stopped"
    """Stopped on purpose: scaled away, suspended, or its job is over."""


LIVE = frozenset({NodePhase.PENDING, NodePhase.RUNNING})
"""The phases in which a node exists and may run."""


class Node(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The identity of one node; nothing in it ever changes."""

    role: Annotated[str, Meta(description="The role it belongs to.")]
    rank: Annotated[int, Meta(description="Its slot in the role.")]
    id: Annotated[int, Meta(description="Never used twice in a job.")]
    name: Annotated[str, Meta(description="On a cluster, the name of its pod.")]
