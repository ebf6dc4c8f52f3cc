"""The actions that the controller requests from a platform, each with a human-readable reason.

All actions are idempotent: starting an id that exists, or stopping one that has ended or never
existed, does nothing. A stop that overtakes its start must win: the id is then never started. A
platform that cannot carry out an action reports why with the node, and retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from resile.job.node import Node
from resile.job.spec.role import NodeResources
from resile.job.status import DecisionNote, JobStatus

__all__ = ["Action", "Decision", "DeleteNode", "Priority", "StartNode", "StopNode"]


@dataclass(frozen=True)
class Priority:
    """The priority of a node. A greater value goes first."""

    value: int = 0
    class_name: str = ""
    """The Kubernetes PriorityClass, if one was named."""


@dataclass(frozen=True, kw_only=True)
class StartNode:
    """Start this node, or hold it pending until there is room."""

    node: Node
    command: tuple[str, ...]
    """Empty: the container image decides."""

    env: Mapping[str, str]
    working_dir: str | None
    resources: NodeResources
    priority: Priority
    grace_seconds: float
    reason: str
    group: str = ""
    """The group whose rounds it joins, by its name on the wire; empty for the main group."""

    avoid: tuple[str, ...] = ()
    """Machines that may be at fault for earlier failures of this job's nodes."""

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
    """The result of one reconcile. Store ``status`` first, then carry out ``actions``."""

    actions: tuple[Action, ...]
    status: JobStatus
    notes: tuple[DecisionNote, ...] = ()
    """The decisions of this call; also the last ones in the status."""

    requeue_after: timedelta | None = None
    """The time to reconcile again even if nothing is reported; None: not needed."""

    removable: str = ""
    """The reason to remove the job's record, once nothing of the job is left; empty until then."""
