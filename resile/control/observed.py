"""The reports of a platform and a master: besides the spec, the only input of decisions.

Reports are level-triggered: they describe the current state, whatever came before, and may be late,
repeated or skip states. A platform guarantees:

- A node is listed from the moment it exists until its record is gone; ended nodes stay listed for
  as long as the platform keeps them. A node that is no longer listed was deleted. One that came and
  went between two reports is in ``gone``, if the platform noticed.
- A node that cannot be placed is PENDING with reason ``UNSCHEDULABLE``; other reasons (an image
  being pulled, an exceeded quota) are free text. One that could not be started at all is FAILED
  with the exit reason ``NeverStarted``.
- A node whose machine is gone for good is FAILED with the exit reason ``NodeLost``, even if its
  record says otherwise: as long as it is reported live, its rank is not filled again.
- A node that has ended while a sidecar still runs ``lingers``. Its rank may be filled again; it is
  stopped to free its resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from resile.job.exits import NodeExit
from resile.job.node import LIVE, Node, NodePhase

__all__ = [
    "FORBIDDEN",
    "INVALID_SPEC",
    "NO_ROOM",
    "UNSCHEDULABLE",
    "GroupReport",
    "MasterState",
    "Observed",
    "ObservedNode",
]

UNSCHEDULABLE = "Unschedulable"

FORBIDDEN = "Forbidden"
"""The reason of a node that the platform refused, for example because of a quota."""

INVALID_SPEC = "InvalidSpec"
"""The reason of a node that the platform cannot create from this manifest, and of the condition
that says so. It waits for a changed manifest."""

NO_ROOM = frozenset({UNSCHEDULABLE, FORBIDDEN})
"""Reasons of nodes that are PENDING because there is no room."""

_NONE: Mapping[str, int] = MappingProxyType({})
_NO_REPORTS: Mapping[str, GroupReport] = MappingProxyType({})


@dataclass(frozen=True)
class ObservedNode:
    """A node as its platform sees it."""

    node: Node
    phase: NodePhase
    """PENDING, RUNNING, SUCCEEDED or FAILED."""

    exit: NodeExit | None = None
    """Its exit, once it is SUCCEEDED or FAILED."""

    reason: str = ""
    """The reason why it is PENDING."""

    message: str = ""
    host: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopping: bool = False
    """It was asked to stop and part of it still runs, or its record is being removed."""

    lingers: bool = False
    """It has ended, but part of it still runs, such as a sidecar."""

    made: bool = True
    """True if it was created; False for a node that the platform has refused so far."""

    ready: bool = False
    """It is running and ready: its pod is Ready; on one machine, its ports accept connections."""

    @property
    def live(self) -> bool:
        """Return whether it exists and has not ended."""
        return self.phase in LIVE

    @property
    def holds_room(self) -> bool:
        """Return whether it holds resources: it is alive, or part of it lingers."""
        return self.live or self.lingers


@dataclass(frozen=True)
class GroupReport:
    """The result of one group's training, as its master reports it."""

    succeeded: bool
    reason: str
    at: datetime


@dataclass(frozen=True)
class MasterState:
    """The job's master as its platform sees it."""

    ready: bool
    """True if it is running and responds."""

    problem: str = ""
    """The problem with the master, for people; empty if there is none. Nodes that train continue
    without a master; those that have not begun cannot start."""


@dataclass(frozen=True)
class Observed:
    """All that was observed of one job at one moment."""

    nodes: tuple[ObservedNode, ...] = ()
    gone: frozenset[int] = frozenset()
    """Ids of nodes that existed and were deleted lately, whether or not a report ever listed them.
    A node listed under such an id was created a second time, and is not the rank's."""

    reports: Mapping[str, GroupReport] = field(default_factory=lambda: _NO_REPORTS)
    """The results of groups whose training is over, by the group's name."""

    wanted: Mapping[str, int] = field(default_factory=lambda: _NONE)
    """Sizes from scale requests, by role; they override the manifest's wanted size."""

    deleting: bool = False
    """True if the deletion of the job was requested."""

    master: MasterState | None = None
    """The job's master; None if the platform does not report it."""
