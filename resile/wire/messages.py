"""The messages between agents and master.

One WebSocket per agent carries :class:`AgentFrame` and :class:`MasterFrame` in msgpack. A message
that would change the master's state names the node and the round that it is about
(:class:`Fence`): late messages of a dead or evicted node are recognised by that and refused.
Messages are small and of constant size, whatever the size of the job, so a round of n nodes costs n
messages and not n² bytes.

Every field has bounds (``bounds.py``), checked as a frame is decoded. The structs in the messages
are defined in ``payloads.py``. The phases of a handover: ``resile/master/handover.py``.

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
    """First on every connection: the node, and what it holds of the job."""

    protocol: int = PROTOCOL
    job: Name
    info: NodeInfo
    elasticity: Elasticity
    held: Fence | None = None
    warm: bool = True
    """True if it can start workers at once; see :class:`Warmed`."""

    state: LocalState = LocalState.IDLE
    store: StoreAddress | None = None
    failures: WorkerFailures = ()
    start: Start | None = None
    """The last one it was sent: a master that lost its state recovers it from these."""

    seen: Number = 0
    """The newest round it ever was in, under any id: later rounds have higher numbers."""

    leaving: Line = ""
    """The reason to leave, while it waits for all members to save; see :class:`Leaving`."""

    handover: Number = 0
    """The newest handover that it knows: later ones have higher numbers."""

    group: GroupName = ""
    """The group that the node joins; empty for the job's main group."""


class Renew(Message, frozen=True, kw_only=True):
    """A heartbeat. Sent several times in a lease."""

    fence: Fence
    progress: Progress | None = None
    usage: Usage | None = None
    """Set where only the agent can measure it: in a container of its own."""

    workers: WorkersNow | None = None
    ranks: RanksProgress = ()
    """Of the workers that reported a step in their round, by local rank."""


class Warmed(Message, frozen=True, kw_only=True):
    """The node's warm fork server is ready. Until then no running round is stopped for it."""

    fence: Fence


class Ready(Message, frozen=True, kw_only=True):
    """Workers of older rounds are gone; the host of the round's store gives its address."""

    fence: Fence
    store: StoreAddress | None = None


class WorkersFailed(Message, frozen=True, kw_only=True):
    """At least one worker of the node failed; the others are being stopped."""

    fence: Fence
    failures: WorkerFailures


class WorkersSucceeded(Message, frozen=True, kw_only=True):
    """All workers of the node exited with 0."""

    fence: Fence


class WorkersReached(Message, frozen=True, kw_only=True):
    """The workers of the node that have and have not connected to the round's store."""

    fence: Fence
    reached: Ranks
    missing: Ranks
    """Both as global ranks."""


class Leave(Message, frozen=True, kw_only=True):
    """The node leaves on purpose, at once."""

    fence: Fence
    reason: Line


class Leaving(Message, frozen=True, kw_only=True):
    """The node was asked to leave: all members save first. Answered by :class:`HandoverOver`."""

    fence: Fence
    reason: Line


class HandoverTold(Message, frozen=True, kw_only=True):
    """PREPARE is done: the workers will save when asked, or cannot if not ``able``."""

    fence: Fence
    able: bool
    handover: Number = 0


class HandedOver(Message, frozen=True, kw_only=True):
    """SAVED: the workers saved this step and hold. Sent again when its copies have arrived."""

    fence: Fence
    step: Number
    copied: Number | None = None
    """The newest step of which the next node acknowledged copies of all parts."""

    handover: Number = 0


class HandoverPublished(Message, frozen=True, kw_only=True):
    """PUBLISHED: the saved step is in storage, or cannot be."""

    fence: Fence
    stored: Number | None = None
    """The newest step of which all parts of the node are there; from the node that publishes, the
    newest complete checkpoint."""

    handover: Number = 0


# --- from the master ----------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True):
    """The agent is this node. ``round``: the one it holds, or 0."""

    node: int
    round: int
    lease: float
    elasticity: Elasticity
    note: str = ""
    handover: int = 0
    """The handover in progress, or 0: workers that hold for any other one continue."""

    master_pid: int = 0
    """The process id of the master on its machine, for a person if it stops answering."""


class Wait(Message, frozen=True, kw_only=True):
    """Nothing to do for now. ``stop_workers``: the round is broken."""

    reason: str
    stop_workers: bool = False


class Prepare(Message, frozen=True, kw_only=True):
    """A new round: stop workers and send Ready. ``host_store``: open its store as well."""

    round: int
    group_rank: int
    host_store: bool
    reason: str


class Start(Message, frozen=True, kw_only=True):
    """The round is agreed: start the workers. Agents keep it for their next Hello."""

    run: Line = ""
    """The same for all rounds of one count."""

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
    """``NodeInfo.peer_address`` of the next node in rank order: probed to detect that this node is
    cut off."""


class Handover(Message, frozen=True, kw_only=True):
    """PREPARE: a change is planned; announce to the workers that they will save and hold.

    ``handover`` is its number. A restarted master does not know earlier handovers; messages about
    one of them are recognised by the number and ignored.
    """

    round: int
    reason: str
    handover: int = 0


class HandoverStep(Message, frozen=True, kw_only=True):
    """CHOOSE: sent to the node of rank 0 when all are prepared, to choose the step to save."""

    round: int
    handover: int = 0


class HandoverPublish(Message, frozen=True, kw_only=True):
    """Put the saved step into storage, and send :class:`HandoverPublished`: copies on other nodes
    are incomplete, or on nodes that leave as well."""

    round: int
    handover: int = 0


class HandoverOver(Message, frozen=True, kw_only=True):
    """RELEASE: the node may leave now."""

    round: int


class HandoverCancelled(Message, frozen=True, kw_only=True):
    """The planned change does not happen: workers that hold for it continue."""

    round: int
    handover: int
    reason: str


class Fenced(Message, frozen=True, kw_only=True):
    """The node was evicted: stop its workers and rejoin as a new node."""

    reason: str


class Drain(Message, frozen=True, kw_only=True):
    """The node is asked to leave: stop its workers cleanly and exit."""

    reason: str


class JobDone(Message, frozen=True, kw_only=True):
    """The job has ended: stop and exit."""

    outcome: Outcome
    reason: str
    report: FailureReport | None = None
    others_go_on: bool = False
    """True if it has ended for this node only."""


class Refused(Message, frozen=True, kw_only=True):
    """The last message, or the connection, was not accepted. ``final``: do not retry."""

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
    """A frame from an agent. ``seq`` increases with each frame: a replay is recognisable."""

    seq: Number
    body: FromAgent


class MasterFrame(msgspec.Struct, frozen=True):
    """A frame from the master."""

    seq: int
    body: FromMaster
