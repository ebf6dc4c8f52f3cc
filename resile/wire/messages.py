"""Everything that agents and master say to each other.

One WebSocket per agent carries :class:`Envelope` frames in msgpack. A message that would change
the master's state names the node and the round it speaks of (:class:`Fence`): what a dead or
evicted node says late is recognised by that and refused. Messages are small and of constant size,
whatever the size of the job, so a round of n nodes costs n messages and not n squared bytes.

Every field has bounds (``wire/bounds.py``), checked as a frame is decoded.

Compatibility: fields are only ever added, with defaults. ``PROTOCOL`` changes when that is broken.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from resile.job.elasticity import Elasticity
from resile.wire.bounds import GroupName, Line, Name, Number
from resile.wire.payloads import (
    FailureReport,
    Fence,
    LocalState,
    NodeInfo,
    Outcome,
    Progress,
    RankProgress,
    Ranks,
    RanksProgress,
    RolePlace,
    StoreAddress,
    Usage,
    WorkerFailure,
    WorkerFailures,
    WorkersNow,
)

__all__ = [
    "AgentFrame",
    "Drain",
    "FailureReport",
    "Fence",
    "Fenced",
    "FromAgent",
    "FromMaster",
    "HandedOver",
    "Handover",
    "HandoverCancelled",
    "HandoverOver",
    "HandoverPublish",
    "HandoverPublished",
    "HandoverStep",
    "HandoverTold",
    "Hello",
    "JobDone",
    "Leave",
    "Leaving",
    "LocalState",
    "MasterFrame",
    "Message",
    "NodeInfo",
    "Outcome",
    "PROTOCOL",
    "Prepare",
    "Progress",
    "RankProgress",
    "Ranks",
    "RanksProgress",
    "Ready",
    "Refused",
    "Renew",
    "RolePlace",
    "Start",
    "StoreAddress",
    "Usage",
    "Wait",
    "Warmed",
    "Welcome",
    "WorkerFailure",
    "WorkerFailures",
    "WorkersFailed",
    "WorkersNow",
    "WorkersReached",
    "WorkersSucceeded",
]

PROTOCOL = 1


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the class name is the tag on the wire."""


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
