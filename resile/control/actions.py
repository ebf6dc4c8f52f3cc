"""What the controller asks a platform to do. Each action carries the reason a person can read.

All actions may be repeated: starting an id that exists, or stopping one that has ended or never
came to be, is done already. A stop that overtakes its start must win: the id is not started any
more. A platform that cannot carry an action out reports why with the node, and tries again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from resile.job.node import Node
from resile.job.role import NodeResources
from resile.job.status import DecisionNote, JobStatus

__all__ = ["Action", "Decision", "DeleteNode", "Priority", "StartNode", "StopNode"]


@dataclass(frozen=True)
class Priority:
    """How important a node is. Of two, the one with the greater value goes first."""

    value: int = 0
    class_name: str = ""
    """The Kubernetes PriorityClass, if one was named."""


@dataclass(frozen=True, kw_only=True)
class StartNode:
    """Start this node, or hold it pending until there is room."""

    node: Node
    command: tuple[str, ...]
    """Empty: what the container image runs."""

    env: Mapping[str, str]
    working_dir: str | None
    resources: NodeResources
    priority: Priority
    grace_seconds: float
    reason: str
    group: str = ""
    """The group whose rounds it joins, as agents and master call it; empty for the main one."""

    avoid: tuple[str, ...] = ()
    """Machines on which nodes of this job died of what may be the machine's fault."""

    ports: Mapping[str, int] = field(default_factory=dict)
    """The ports that it listens on, by name."""


@dataclass(frozen=True, kw_only=True)
class StopNode:
    """SIGTERM now, SIGKILL after the grace period."""

    node: Node
    grace_seconds: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class DeleteNode:
    """Remove the record of a node that has ended."""

    node: Node
    reason: str


Action: TypeAlias = StartNode | StopNode | DeleteNode


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do now. Store ``status`` first, then carry out ``actions``."""

    actions: tuple[Action, ...]
    status: JobStatus
    notes: tuple[DecisionNote, ...] = ()
    """What was decided in this call; also the last ones in the status."""

    requeue_after: timedelta | None = None
    """When to look again even if nothing is reported; None: not needed."""

    removable: str = ""
    """Not empty once nothing of the job is left to look after: why its record may be removed."""
