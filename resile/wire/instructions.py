"""Instructions that a :class:`~resile.wire.session.NodeSession` gives its owner.

They are the master's messages without those that come late or twice: the owner carries out every
instruction that it gets. Messages about a planned change (a handover) are passed on unchanged.
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
    """True if the id is new: workers that were started under an earlier one have to stop."""

    note: str = ""
    """A note for the user."""

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
    """A restarted master asks again: answer the same, with the same store."""

    ready: Ready


@dataclass(frozen=True)
class StartWorkers:
    """The round is agreed: start its workers."""

    start: Start


@dataclass(frozen=True)
class KeepWaiting:
    """Nothing to do for now; running workers continue."""

    reason: str


@dataclass(frozen=True)
class StopWorkers:
    """The round is over and the next one is not formed yet: stop its workers, and wait."""

    reason: str


@dataclass(frozen=True)
class Rejoin:
    """The node was evicted: kill its workers, then connect as a new node."""

    reason: str


@dataclass(frozen=True)
class LeaveJob:
    """The node is asked to leave: stop its workers cleanly, send Leave and exit."""

    reason: str


@dataclass(frozen=True)
class EndWithJob:
    """The job is over: stop the workers and exit."""

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
