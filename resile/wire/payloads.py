"""Values that messages between agents and master carry (``messages.py``).

Every field has bounds (``bounds.py``), checked as a frame is decoded.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import msgspec

from resile.job.limits import MAX_WORKERS
from resile.wire.bounds import (
    Age,
    Cores,
    ExitCode,
    Host,
    Line,
    Moment,
    Name,
    Number,
    PathText,
    Port,
    ReportText,
    WorkerCount,
)


class Fence(msgspec.Struct, frozen=True):
    """The sender of a message, and the round that it is about."""

    node: Number
    round: Number


class StoreAddress(msgspec.Struct, frozen=True):
    """The address of the round's TCPStore."""

    host: Host
    port: Port
    hosted: bool = True
    """True if an agent serves it; for a script without torch nothing listens there."""


class WorkerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The failure of one worker."""

    local_rank: Number
    rank: Number
    pid: Number
    exit_code: ExitCode
    """As in subprocess: negative for a signal."""

    age: Age = 0.0
    """Seconds between the death and this report, so that no two clocks have to agree."""

    message: ReportText = ""
    """The worker's own report: its error file, or the last lines of its stderr."""

    log: PathText = ""
    """The file with the worker's whole output, if it was kept."""

    cannot_start: Line = ""
    """The error if the script itself could not be compiled or imported."""

    error_file: ReportText = ""
    """The whole file that torch's ``record`` wrote, for the first failure of the node."""


WorkerFailures: TypeAlias = Annotated[
    tuple[WorkerFailure, ...], msgspec.Meta(max_length=MAX_WORKERS)
]
Ranks: TypeAlias = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_WORKERS)]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress that workers reported since they started; sent with each heartbeat.

    Without bounds: the numbers are the user's, and a strange one must not cost the connection.
    """

    step: int | None = None
    loss: float | None = None
    total: int | None = None
    """The total number of steps, if the script reports it."""

    resumed: int | None = None
    """The step that training resumed from, if state was restored."""

    source: str = ""
    """The source of the restored state: memory, storage."""


class RankProgress(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The progress of one worker of a node in its round.

    Without bounds on steps and times, like :class:`Progress`. Sent without field names, so that
    those of the largest node fit into a frame; new fields go to the end.
    """

    local_rank: Number
    rank: Number
    step: int
    age: float
    """Seconds since that step, by the node's clock, when this was sent."""

    step_time: float | None = None
    """Seconds per step, smoothed; None until two steps were seen."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The current resource usage of a node."""

    cpu: Cores | None = None
    memory: Number | None = None
    """In bytes."""


RanksProgress: TypeAlias = Annotated[tuple[RankProgress, ...], msgspec.Meta(max_length=MAX_WORKERS)]


class WorkersNow(msgspec.Struct, frozen=True, kw_only=True):
    """The current workers of a node."""

    pids: Ranks = ()
    """In the order of their local ranks; empty while none run."""

    failures: Number = 0
    """The number of rounds in which workers failed since this agent joined."""


class LocalState(Enum):
    """The state of a node's workers in its round."""

    IDLE = "idle"
    READY = "ready"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a node that do not change while its agent runs."""

    name: Name
    host: Name
    address: Host
    """The address at which other nodes reach this one."""

    nproc: WorkerCount
    role: Name = "default"
    rank: Number | None = None
    """The slot it was started for, if its platform or user gave one."""

    generation: Number | None = None
    """The platform's own id of the node: a higher one replaces a lower one of the same slot."""

    pid: Number = 0
    peer_address: Line = msgspec.field(default="", name="door")
    """HOST:PORT at which agents of other nodes reach this agent; empty if it does not listen. Its
    name on the wire is of an earlier version."""


class RolePlace(msgspec.Struct, frozen=True):
    """The ranks of a node's workers among those of the same role."""

    first_rank: Number
    world_size: Number


class Outcome(Enum):
    """The outcome of a job."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The first failure of a round: the worker, and its node."""

    node: Number
    name: str
    host: str
    failure: WorkerFailure
    when: Moment
    """Unix time at the master."""

    others: Number = 0
