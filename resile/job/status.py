"""What is known of a job: what a person reads, and all that its controller remembers.

The controller keeps nothing elsewhere. It may be killed after any call and started again with the
status it last wrote, and decides as if nothing had happened. So a status has to be stored before
the actions decided with it are carried out; done the other way round, an id could be used twice.

In JSON the names are camelCase and times are RFC 3339, as Kubernetes has it.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from resile.job.exits import ExitCause
from resile.job.node import Node, NodePhase
from resile.job.role import NodeResources

__all__ = [
    "FINISHED",
    "Ask",
    "AskVerb",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "DecisionNote",
    "JobPhase",
    "JobStatus",
    "NodeStatus",
    "RoleStatus",
    "decode_status",
    "encode_status",
]


class _StatusStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Unknown fields are let through: a newer controller may have written them."""


class JobPhase(str, Enum):
    """The job in one word."""

    CREATED = "Created"
    PENDING = "Pending"
    """Fewer nodes than it needs to train, and it has not trained yet."""

    RUNNING = "Running"
    RESTARTING = "Restarting"
    """It has trained, and has fewer nodes than it needs at the moment."""

    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


class ConditionType(str, Enum):
    """What a condition speaks of. A type is listed from the first time it holds."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SCALING = "Scaling"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ConditionStatus(str, Enum):
    """Whether it holds."""

    TRUE = "True"
    FALSE = "False"


class Condition(_StatusStruct, frozen=True, kw_only=True):
    """One condition, in the shape of Kubernetes' metav1.Condition."""

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: datetime
    """When ``status`` last changed; a new reason or message leaves it alone."""


class RoleStatus(_StatusStruct, frozen=True, kw_only=True):
    """One role in numbers."""

    wanted: int = 0
    active: int = 0
    """Running now."""

    pending: int = 0
    """Asked for or waiting to be."""

    succeeded: int = 0
    failed: int = 0
    """Ended and given up."""

    restarts: int = 0
    """Nodes replaced so far, for whatever cause."""

    spent: int = 0
    """Relaunches that counted against the budget."""

    scaling: str = ""
    """ScalingUp or ScalingDown from a change of ``wanted`` until it is reached."""

    next_serial: int = 0
    """The number in the name of the role's next node."""


class NodeStatus(_StatusStruct, frozen=True, kw_only=True):
    """One rank of a role: its present or last node, and what the rank has been through."""

    role: str
    rank: int
    phase: NodePhase
    id: int | None = None
    name: str = ""
    reason: str = ""
    """One CamelCase word for the phase."""

    message: str = ""
    host: str = ""
    resources: NodeResources = NodeResources()
    restarts: int = 0
    spent: int = 0
    quick_crashes: int = 0
    """How often in a row it failed soon after its start: what the back-off grows with."""

    memory: str | None = None
    """What the rank is given instead of the manifest's memory, since it ran out."""

    last_end: ExitCause | None = None
    last_message: str = ""
    """Why the previous node of this rank ended."""

    seen: bool = False
    """Whether the platform has ever reported this id: only then can its absence mean deletion."""

    asked_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    relaunch_at: datetime | None = None
    """Not to be started before."""

    @property
    def node(self) -> Node | None:
        """The identity of its present or last node."""
        if self.id is None:
            return None
        return Node(role=self.role, rank=self.rank, id=self.id, name=self.name)


class AskVerb(str, Enum):
    """What was asked of the platform for a node that is not wanted any more."""

    STOP = "Stop"
    DELETE = "Delete"


class Ask(_StatusStruct, frozen=True, kw_only=True):
    """A request to the platform that has not shown its effect yet; kept so as not to repeat it."""

    node: Node
    verb: AskVerb
    at: datetime
    seen: bool = False
    """Whether the node was ever reported; until then its absence may only mean that it is late."""


class DecisionNote(_StatusStruct, frozen=True, kw_only=True):
    """Something the controller decided, and why."""

    time: datetime
    reason: str
    """One CamelCase word, for Kubernetes Events."""

    sentence: str
    node: str = ""
    """The name of the node it concerns, if one."""


class JobStatus(_StatusStruct, frozen=True, kw_only=True):
    """A job's status; ``JobStatus()`` is that of a job nobody has looked at yet."""

    phase: JobPhase = JobPhase.CREATED
    conditions: tuple[Condition, ...] = ()
    roles: dict[str, RoleStatus] = msgspec.field(default_factory=dict)
    nodes: tuple[NodeStatus, ...] = ()
    decisions: tuple[DecisionNote, ...] = ()
    """The most recent ones, oldest first."""

    asks: tuple[Ask, ...] = ()
    next_id: int = 0
    spent: int = 0
    """Relaunches that counted against a budget, in the whole job."""

    start_time: datetime | None = None
    completion_time: datetime | None = None

    @property
    def finished(self) -> bool:
        """Whether the job has ended, one way or the other."""
        return self.phase in FINISHED

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, if it has ever held."""
        return next((found for found in self.conditions if found.type is kind), None)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JobStatus)


def encode_status(status: JobStatus) -> bytes:
    """The status as JSON."""
    return _ENCODER.encode(status)


def decode_status(data: bytes | str) -> JobStatus:
    """A status from JSON; raises msgspec.ValidationError on what no controller wrote."""
    return _DECODER.decode(data)
