"""What a platform and a master report: the only thing decisions are made from, besides the spec.

A report is a level, not an event: it says how things are now, whatever came before, and may be
late, repeated or skip states. A platform keeps these promises:

- A node is listed from the moment it exists until its record is gone; ended nodes stay listed for
  as long as the platform keeps them. A node listed once and then not any more was deleted. One that
  came and went between two reports is named as ``gone``, if the platform noticed.
- A node that cannot be placed is PENDING with reason ``UNSCHEDULABLE``; other reasons (an image
  being pulled, a refused quota) are free text. One that could not be started at all is FAILED with
  the exit reason ``NeverStarted``.
- A node whose machine is gone for good is FAILED with the exit reason ``NodeLost``, even while a
  record of it says otherwise: as long as it is reported live, its rank is not filled again.
- A node that has ended while something beside its program still runs ``lingers``. Its rank may be
  filled again; it is stopped for the room that it holds.
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
"""The reason of a node that the platform would not take, because of a quota for instance."""

INVALID_SPEC = "InvalidSpec"
"""The reason of a node that the platform cannot make as the manifest is, and of the condition that
says so. It waits for another manifest."""

NO_ROOM = frozenset({UNSCHEDULABLE, FORBIDDEN})
"""Reasons of nodes that are PENDING for want of room."""

_NONE: Mapping[str, int] = MappingProxyType({})
_NO_REPORTS: Mapping[str, GroupReport] = MappingProxyType({})


@dataclass(frozen=True)
class ObservedNode:
    """One node as its platform sees it."""

    node: Node
    phase: NodePhase
    """PENDING, RUNNING, SUCCEEDED or FAILED."""

    exit: NodeExit | None = None
    """How it ended, once it is SUCCEEDED or FAILED."""

    reason: str = ""
    """Why it is PENDING."""

    message: str = ""
    host: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopping: bool = False
    """It was told to stop and something of it still runs, or its record is being removed."""

    lingers: bool = False
    """It has ended, but something of it still runs, such as a sidecar."""

    made: bool = True
    """Whether there is something of it; False for a node that the platform would not take yet."""

    ready: bool = False
    """It runs and answers: its pod is Ready; on one machine, its ports accept connections."""

    @property
    def live(self) -> bool:
        """Whether it exists and has not ended."""
        return self.phase in LIVE

    @property
    def holds_room(self) -> bool:
        """Whether it takes up room: it lives, or something of it lingers."""
        return self.live or self.lingers


@dataclass(frozen=True)
class GroupReport:
    """The master's verdict on the training of one group, once there is one."""

    succeeded: bool
    reason: str
    at: datetime


@dataclass(frozen=True)
class MasterState:
    """The job's master as its platform sees it."""

    ready: bool
    """Whether it runs and answers."""

    problem: str = ""
    """Why it cannot be had, for people; empty while nothing is wrong with it. Nodes that train go
    on without a master; those that have not begun cannot."""


@dataclass(frozen=True)
class Observed:
    """Everything seen of one job at one moment."""

    nodes: tuple[ObservedNode, ...] = ()
    gone: frozenset[int] = frozenset()
    """Ids of nodes that were there and were deleted lately, whether or not a report ever listed
    them. What is listed under such an id was made a second time, and is not the rank's."""

    reports: Mapping[str, GroupReport] = field(default_factory=lambda: _NO_REPORTS)
    """The verdicts on groups whose training is over, by the group's name."""

    wanted: Mapping[str, int] = field(default_factory=lambda: _NONE)
    """Sizes asked for by scale requests, by role; they override the manifest's wanted size."""

    deleting: bool = False
    """Somebody asked for the job to be deleted."""

    master: MasterState | None = None
    """The job's master; None where the platform says nothing of it."""
