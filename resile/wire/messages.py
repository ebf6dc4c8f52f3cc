"""Everything that agents and master say to each other.

One WebSocket per agent carries :class:`Envelope` frames in msgpack. A message that would change
the master's state names the node and the round it speaks of (:class:`Fence`): what a dead or
evicted node says late is recognised by that and refused. Messages are small and of constant size,
whatever the size of the job, so a round of n nodes costs n messages and not n squared bytes.

Every field has bounds (``wire/bounds.py``), checked as a frame is decoded.

Compatibility: fields are only ever added, with defaults. ``PROTOCOL`` changes when that is broken.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import msgspec

from resile.job.elasticity import Elasticity
from resile.job.limits import MOST_WORKERS
from resile.wire.bounds import (
    Age,
    Cores,
    ExitCode,
    GroupName,
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

PROTOCOL = 1


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the class name is the tag on the wire."""


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


# --- from an agent ------------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True):
    """First on every connection: who I am and what I hold."""

    protocol: int = PROTOCOL
    job: Name
    info: NodeInfo
    elasticity: Elasticity
    held: Fence | None = None
    warm: bool = True
    """Whether it can start workers at once; see :class:`Warmed`."""

    state: LocalState = LocalState.IDLE
    store: StoreAddress | None = None
    failures: WorkerFailures = ()
    start: Start | None = None
    """The last one it was given: a master that lost its memory learns its job from these."""

    seen: Number = 0
    """The newest round it ever was in, also as another node: no later one may be older."""

    leaving: Line = ""
    """Why it is about to go, while it waits for everybody to save; see :class:`Leaving`."""

    handover: Number = 0
    """The newest handover it was ever told of: no later one may have the same number."""

    group: GroupName = ""
    """The group of nodes that it shares a world with; empty for the job's main group."""


class Renew(Message, frozen=True, kw_only=True):
    """I am alive. Sent several times in a lease."""

    fence: Fence
    progress: Progress | None = None
    usage: Usage | None = None
    """Where the agent is the one who can tell: in a container of its own."""

    workers: WorkersNow | None = None
    ranks: RanksProgress = ()
    """By local rank: of the workers that reported a step in their round."""


class Warmed(Message, frozen=True, kw_only=True):
    """My nursery is ready. Until then nobody who trains should stop for me."""

    fence: Fence


class Ready(Message, frozen=True, kw_only=True):
    """My workers of older rounds are gone; the host of the round's store says where it is."""

    fence: Fence
    store: StoreAddress | None = None


class WorkersFailed(Message, frozen=True, kw_only=True):
    """At least one of my workers failed; the others are being stopped."""

    fence: Fence
    failures: WorkerFailures


class WorkersSucceeded(Message, frozen=True, kw_only=True):
    """All my workers exited with 0."""

    fence: Fence


class WorkersReached(Message, frozen=True, kw_only=True):
    """Which of my workers have connected to the round's store so far."""

    fence: Fence
    reached: Ranks
    missing: Ranks
    """Both as global ranks."""


class Leave(Message, frozen=True, kw_only=True):
    """I go, on purpose. Nobody needs to wait for proof."""

    fence: Fence
    reason: Line


class Leaving(Message, frozen=True, kw_only=True):
    """I was asked to go: let everybody save first. Answered with :class:`HandoverOver`."""

    fence: Fence
    reason: Line


class HandoverTold(Message, frozen=True, kw_only=True):
    """My workers know that they will be asked to save; or they cannot, if not ``able``."""

    fence: Fence
    able: bool
    handover: Number = 0


class HandedOver(Message, frozen=True, kw_only=True):
    """My workers saved this step and hold still. Said again when the copies of it have arrived."""

    fence: Fence
    step: Number
    copied: Number | None = None
    """The newest step of which the next node acknowledged copies of all my parts."""

    handover: Number = 0


class HandoverPublished(Message, frozen=True, kw_only=True):
    """I wait no longer for storage: what my workers saved is there, or cannot be."""

    fence: Fence
    stored: Number | None = None
    """The newest step of which all my parts are there; from the node that publishes, the newest
    whole checkpoint."""

    handover: Number = 0


# --- from the master ----------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True):
    """You are this node now. ``round`` is what you hold, or 0."""

    node: int
    round: int
    lease: float
    elasticity: Elasticity
    note: str = ""
    handover: int = 0
    """The handover that is under way, or 0: workers that hold for any other one go on."""

    master_pid: int = 0
    """The process that says this, on its own machine: whom to wake up should it not answer."""


class Wait(Message, frozen=True, kw_only=True):
    """Nothing to do for now, and for what we wait. Workers of a broken round have to stop."""

    reason: str
    stop_workers: bool = False


class Prepare(Message, frozen=True, kw_only=True):
    """A new round: stop your workers and say Ready. ``host_store``: open its store as well."""

    round: int
    group_rank: int
    host_store: bool
    reason: str


class RolePlace(msgspec.Struct, frozen=True):
    """Where a node's workers are among those of the same role."""

    first_rank: Number
    world_size: Number


class Start(Message, frozen=True, kw_only=True):
    """The round is agreed: start your workers. Agents keep it, and tell it in their Hello."""

    run: Line = ""
    """The same for all rounds that are counted together."""

    round: Number
    group_rank: Number
    group_world_size: Number
    first_rank: Number
    world_size: Number
    role_place: RolePlace | None = None
    store: StoreAddress
    restart_count: Number
    max_restarts: Number
    neighbour: Line = ""
    """The door of the next node in the order of ranks, to see whether this one is cut off."""


class Handover(Message, frozen=True, kw_only=True):
    """A planned change is near: tell your workers that they will save and hold.

    ``handover`` is its number. A master that returns after its death knows nothing of handovers
    before; what is said of one of them is recognised by the number and ignored.
    """

    round: int
    reason: str
    handover: int = 0


class HandoverStep(Message, frozen=True, kw_only=True):
    """To the node of rank 0, when all know: choose the step that everybody saves."""

    round: int
    handover: int = 0


class HandoverPublish(Message, frozen=True, kw_only=True):
    """Have what was saved in storage, and say :class:`HandoverPublished`: the copies on other nodes
    are not complete, or lie on nodes that leave as well."""

    round: int
    handover: int = 0


class HandoverOver(Message, frozen=True, kw_only=True):
    """Whoever wants to leave may do so now."""

    round: int


class HandoverCancelled(Message, frozen=True, kw_only=True):
    """The planned change does not happen: workers that hold for it go on training."""

    round: int
    handover: int
    reason: str


class Fenced(Message, frozen=True, kw_only=True):
    """You were put out. Stop your workers and come back as a new node."""

    reason: str


class Drain(Message, frozen=True, kw_only=True):
    """Please leave: stop your workers cleanly and go."""

    reason: str


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


class JobDone(Message, frozen=True, kw_only=True):
    """The job has ended. Stop and go."""

    outcome: Outcome
    reason: str
    report: FailureReport | None = None
    others_go_on: bool = False
    """It has ended for this node alone."""


class Refused(Message, frozen=True, kw_only=True):
    """The last message, or the connection, was not accepted. ``final``: do not try again."""

    reason: str
    final: bool = False


FromAgent: TypeAlias = (
    Hello
    | Renew
    | Warmed
    | Ready
    | WorkersFailed
    | WorkersSucceeded
    | WorkersReached
    | HandoverTold
    | HandedOver
    | HandoverPublished
    | Leaving
    | Leave
)
FromMaster: TypeAlias = (
    Welcome
    | Wait
    | Prepare
    | Start
    | Handover
    | HandoverStep
    | HandoverPublish
    | HandoverOver
    | HandoverCancelled
    | Fenced
    | Drain
    | JobDone
    | Refused
)


class AgentFrame(msgspec.Struct, frozen=True):
    """One frame from an agent. ``seq`` grows by at least one a frame: a replay is recognisable."""

    seq: Number
    body: FromAgent


class MasterFrame(msgspec.Struct, frozen=True):
    """One frame from the master."""

    seq: int
    body: FromMaster
