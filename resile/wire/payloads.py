"""Values that messages between agents and master carry (``messages.py``).

Every field has bounds (``bounds.py``), checked as a frame is decoded.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import msgspec

from resile.job.limits import MOST_WORKERS
from resile.wire.bounds import (
    Age,
    Cores,
    ExitCode,
    Host,
    LastWords,
    Line,
    Moment,
    Name,
    Number,
    PathText,
    Port,
    WorkerCount,
)


class Fence(msgspec.Struct, frozen=True):
    """Who speaks, and of which round."""

    node: Number
    round: Number


class StoreAddress(msgspec.Struct, frozen=True):
    """Where the round's TCPStore listens."""

    host: Host
    port: Port
    hosted: bool = True
    """Whether an agent serves it; a script without torch gets an address nobody listens at."""


class WorkerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker ended that should not have."""

    local_rank: Number
    rank: Number
    pid: Number
    exit_code: ExitCode
    """As subprocess counts: negative for a signal."""

    age: Age = 0.0
    """Seconds between the death and this report, so that no two clocks have to agree."""

    message: LastWords = ""
    """The worker's own last words: its error file, or the last lines of its stderr."""

    log: PathText = ""
    """Where the worker's output can be read in full, if it was kept."""

    cannot_start: Line = ""
    """The error for which the script itself could not be compiled or imported, if that was it."""

    error_file: LastWords = ""
    """The file that torch's ``record`` wrote, as a whole, if this is the node's first failure."""


WorkerFailures: TypeAlias = Annotated[
    tuple[WorkerFailure, ...], msgspec.Meta(max_length=MOST_WORKERS)
]
Ranks: TypeAlias = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MOST_WORKERS)]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers reported since they started; travels with the lease.

    Without bounds: it is the user's own number, and a strange one must not cost the connection.
    """

    step: int | None = None
    loss: float | None = None
    total: int | None = None
    """How many steps there will be in all, if the script says so."""

    resumed: int | None = None
    """The step that training went on with after a restore, if there was one."""

    source: str = ""
    """What that was restored from: memory, storage."""


class RankProgress(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How far one worker of a node has come in its round.

    Without bounds on steps and times, for the reason that :class:`Progress` has none. Sent without
    the fields' names, so that those of the largest node fit into a frame; new fields go to the end.
    """

    local_rank: Number
    rank: Number
    step: int
    age: float
    """Seconds since that step, by the node's clock, when this was sent."""

    step_time: float | None = None
    """Seconds that a step takes lately, smoothed; None until two steps were seen."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a node uses at the moment."""

    cpu: Cores | None = None
    memory: Number | None = None
    """In bytes."""


RanksProgress: TypeAlias = Annotated[
    tuple[RankProgress, ...], msgspec.Meta(max_length=MOST_WORKERS)
]


class WorkersNow(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a node, as its agent knows them."""

    pids: Ranks = ()
    """In the order of their local ranks; empty while none run."""

    failures: Number = 0
    """How often one or more of them failed since this agent joined."""


class LocalState(Enum):
    """What an agent holds, as it tells a master that may have forgotten."""

    IDLE = "idle"
    READY = "ready"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change in an agent's life."""

    name: Name
    host: Name
    address: Host
    """Where other nodes reach this one."""

    nproc: WorkerCount
    role: Name = "default"
    rank: Number | None = None
    """The slot it was started for, if its platform or user said so."""

    generation: Number | None = None
    """The platform's own id of the node: for one slot, the higher one replaces the lower."""

    pid: Number = 0
    door: Line = ""
    """HOST:PORT at which other nodes' agents reach this one's; empty if it listens nowhere."""


class RolePlace(msgspec.Struct, frozen=True):
    """Where a node's workers are among those of the same role."""

    first_rank: Number
    world_size: Number


class Outcome(Enum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which worker failed first, and where: what a person asks when a job has failed."""

    node: Number
    name: str
    host: str
    failure: WorkerFailure
    when: Moment
    """Unix time at the master."""

    others: Number = 0
