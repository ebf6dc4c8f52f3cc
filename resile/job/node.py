"""Who a node is, and where it is in its life.

A node has a **rank**, the slot it fills in its role, and an **id**, which grows through the whole
job and is never used twice: a replacement takes a new id and the old rank. Its name is
``<job>-<role>-<n>``, where n counts the nodes of that role from 0, so in a job with one role n is
the id. Whatever a dead node still says can be recognised by its id.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["LIVE", "Node", "NodePhase", "node_name", "serial_of"]


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


def node_name(job: str, role: str, *, serial: int) -> str:
    """The name of the ``serial``-th node of a role, counted from 0."""
    return f"{job}-{role}-{serial}"


_LONGEST_SERIAL = 15
"""Digits. Anybody may call a pod anything."""


def serial_of(name: str) -> int | None:
    """The number at the end of a node's name; None if it is not one of our names."""
    tail = name.rpartition("-")[2]
    known = tail.isascii() and tail.isdigit() and len(tail) <= _LONGEST_SERIAL
    return int(tail) if known else None
