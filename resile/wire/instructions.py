"""Instructions that a :class:`~resile.wire.session.NodeSession` gives its owner.

They are the master's messages less those that come late or twice: whoever gets an instruction
carries it out. Messages about a planned change (a handover) are passed on as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from resile.wire.messages import (
    Handover,
    HandoverCancelled,
    HandoverOver,
    HandoverPublish,
    HandoverStep,
    JobDone,
    Ready,
    Start,
)


@dataclass(frozen=True)
class Joined:
    """The node is in the job, or still is."""

    node: int
    new: bool
    """Whether it was not this node before: workers of an earlier life have to stop."""

    note: str = ""
    """Something that the user should read."""

    handover: int = 0
    """The planned change that the master knows of; 0 for none."""


@dataclass(frozen=True)
class PrepareRound:
    """Stop the workers, open the round's store if asked to, and report that the node is ready."""

    round: int
    host_store: bool
    reason: str


@dataclass(frozen=True)
class RepeatReady:
    """A master that returned asks again: tell it the same, with the same store."""

    ready: Ready


@dataclass(frozen=True)
class StartWorkers:
    """The round is agreed: start its workers."""

    start: Start


@dataclass(frozen=True)
class KeepWaiting:
    """Nothing to do for now; workers that run go on."""

    reason: str


@dataclass(frozen=True)
class StopWorkers:
    """The round is over and no other is near: stop what is left of it, and wait."""

    reason: str


@dataclass(frozen=True)
class Rejoin:
    """The node was evicted: kill its workers, then connect as a new node."""

    reason: str


@dataclass(frozen=True)
class LeaveJob:
    """The node is asked to go: stop its workers cleanly, say goodbye and end."""

    reason: str


@dataclass(frozen=True)
class EndWithJob:
    """The job is over: stop the workers and end."""

    done: JobDone


HandoverInstruction: TypeAlias = (
    Handover | HandoverStep | HandoverPublish | HandoverOver | HandoverCancelled
)

Instruction: TypeAlias = (
    Joined
    | PrepareRound
    | RepeatReady
    | StartWorkers
    | KeepWaiting
    | StopWorkers
    | Rejoin
    | LeaveJob
    | EndWithJob
    | HandoverInstruction
)
