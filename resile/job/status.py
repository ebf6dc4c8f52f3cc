"""The status of a job: what a person reads, and the whole memory of its controller.

The controller stores nothing elsewhere. It may be killed after any call and restarted with the
status it last wrote, and decides as if nothing had happened. So a status has to be stored before
the actions decided with it are carried out; in the reverse order an id could be used twice.

In JSON the names are camelCase and times are RFC 3339, as in Kubernetes.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from resile.job.exits import ExitCause
from resile.job.node import Node, NodePhase
from resile.job.spec.role import NodeResources
from resile.job.training import TrainingView

__all__ = [
    "FINISHED",
    "MASTER_UNAVAILABLE",
    "NodeRequest",
    "RequestVerb",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "DecisionNote",
    "HostTrouble",
    "JobPhase",
    "JobStatus",
    "NodeStatus",
    "RoleStatus",
]


MASTER_UNAVAILABLE = "MasterUnavailable"
"""The reason of the condition MasterReady when the job cannot have a master."""


class _StatusStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of these structs. Unknown fields, as of a newer controller, are ignored."""


class JobPhase(str, Enum):
    """The phase of a job: its state in one word."""

    CREATED = "Created"
    PENDING = "Pending"
    """The job has fewer nodes than it needs to train, and has not trained yet."""

    RUNNING = "Running"
    RESTARTING = "Restarting"
    """The job has trained, and currently has fewer nodes than it needs."""

    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


class ConditionType(str, Enum):
    """The type of a condition. A type is listed from the first time it holds."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SCALING = "Scaling"
    MASTER_READY = "MasterReady"
    """The job's master runs and answers. Nodes that train continue without it."""

    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ConditionStatus(str, Enum):
    """The status of a condition: True if it holds."""

    TRUE = "True"
    FALSE = "False"


class Condition(_StatusStruct, frozen=True, kw_only=True):
    """A condition, in the shape of Kubernetes' metav1.Condition."""

    type: Annotated[ConditionType, Meta(description="What it speaks of.")]
    status: Annotated[ConditionStatus, Meta(description="Whether it holds.")]
    reason: Annotated[str, Meta(description="Why, in one CamelCase word.")]
    message: Annotated[str, Meta(description="Why, in a sentence.")]
    last_transition_time: Annotated[
        datetime,
        Meta(description="When status last changed; a new reason or message leaves it alone."),
    ]
    observed_generation: Annotated[
        int | None, Meta(description="The generation of the spec that it was judged by.")
    ] = None


class RoleStatus(_StatusStruct, frozen=True, kw_only=True):
    """The counts of one role."""

    wanted: Annotated[int, Meta(description="Nodes it is to have.")] = 0
    active: Annotated[int, Meta(description="Running now.")] = 0
    pending: Annotated[int, Meta(description="Asked for or waiting to be.")] = 0
    succeeded: Annotated[int, Meta(description="Ended with success.")] = 0
    failed: Annotated[int, Meta(description="Ended and given up.")] = 0
    restarts: Annotated[int, Meta(description="Nodes replaced so far, for whatever cause.")] = 0
    spent: Annotated[int, Meta(description="Relaunches that counted against the budget.")] = 0
    scaling: Annotated[
        str,
        Meta(description="ScalingUp or ScalingDown from a change of wanted until it is reached."),
    ] = ""
    next_serial: Annotated[
        int, Meta(description="The number in the name of the role's next node.")
    ] = 0


class NodeStatus(_StatusStruct, frozen=True, kw_only=True):
    """A rank of a role: its current or last node, and the history of the rank."""

    role: Annotated[str, Meta(description="The role it belongs to.")]
    rank: Annotated[int, Meta(description="Its slot in the role; a replacement takes it over.")]
    phase: Annotated[NodePhase, Meta(description="Where it is in its life.")]
    id: Annotated[
        int | None, Meta(description="Never used twice; none while it waits for its first node.")
    ] = None
    name: Annotated[str, Meta(description="On a cluster, the name of its pod.")] = ""
    reason: Annotated[str, Meta(description="One CamelCase word for the phase.")] = ""
    message: Annotated[str, Meta(description="The phase in a sentence.")] = ""
    host: Annotated[str, Meta(description="The machine it runs on.")] = ""
    resources: Annotated[NodeResources, Meta(description="What it was given.")] = NodeResources()
    restarts: Annotated[int, Meta(description="How often it was replaced, for whatever cause.")] = 0
    spent: Annotated[int, Meta(description="Relaunches that counted against the budget.")] = 0
    quick_crashes: Annotated[
        int,
        Meta(description="How often in a row it failed soon after its start."),
    ] = 0
    memory: Annotated[
        str | None,
        Meta(
            description="What the rank is given instead of the manifest's memory, since it ran out."
        ),
    ] = None
    last_end: Annotated[
        ExitCause | None, Meta(description="What ended the previous node of this rank.")
    ] = None
    last_message: Annotated[str, Meta(description="Why the previous node of this rank ended.")] = ""
    seen: Annotated[
        bool,
        Meta(description="Whether this id was ever reported: only then can it be gone."),
    ] = False
    asked_at: Annotated[datetime | None, Meta(description="When it was asked for.")] = None
    avoids: Annotated[
        tuple[str, ...], Meta(description="Machines that it was told to keep away from.")
    ] = ()
    ready: Annotated[
        bool, Meta(description="Whether it runs and answers, as its platform sees it.")
    ] = False
    started_at: Annotated[datetime | None, Meta(description="When it started.")] = None
    ended_at: Annotated[datetime | None, Meta(description="When it ended.")] = None
    relaunch_at: Annotated[datetime | None, Meta(description="Not to be started before.")] = None

    @property
    def node(self) -> Node | None:
        """The identity of its current or last node."""
        if self.id is None:
            return None
        return Node(role=self.role, rank=self.rank, id=self.id, name=self.name)


class RequestVerb(str, Enum):
    """The kind of a request to the platform about a node that is no longer wanted."""

    STOP = "Stop"
    DELETE = "Delete"


class NodeRequest(_StatusStruct, frozen=True, kw_only=True):
    """A request to the platform without visible effect yet; stored so that it is not repeated."""

    node: Annotated[Node, Meta(description="The node it concerns.")]
    verb: Annotated[RequestVerb, Meta(description="What was asked.")]
    at: Annotated[datetime, Meta(description="When.")]
    seen: Annotated[
        bool,
        Meta(description="Whether the node was ever reported: until then it may only be late."),
    ] = False


class DecisionNote(_StatusStruct, frozen=True, kw_only=True):
    """A decision of the controller, and its reason."""

    time: Annotated[datetime, Meta(description="When it was decided.")]
    reason: Annotated[str, Meta(description="One CamelCase word, for Kubernetes Events.")]
    sentence: Annotated[str, Meta(description="What was decided and why.")]
    node: Annotated[str, Meta(description="The name of the node it concerns, if one.")] = ""


class HostTrouble(_StatusStruct, frozen=True, kw_only=True):
    """A machine on which a node of this job ended, possibly because of the machine."""

    host: Annotated[str, Meta(description="The machine.")]
    cause: Annotated[ExitCause, Meta(description="What the node died of.")]
    at: Annotated[datetime, Meta(description="When.")]


class JobStatus(_StatusStruct, frozen=True, kw_only=True):
    """The status of a job; ``JobStatus()`` is the status before the first reconcile."""

    phase: Annotated[JobPhase, Meta(description="The job in one word.")] = JobPhase.CREATED
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(
            description="What holds of the job, and since when.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    roles: Annotated[dict[str, RoleStatus], Meta(description="Each role in numbers.")] = (
        msgspec.field(default_factory=dict)
    )
    nodes: Annotated[
        tuple[NodeStatus, ...],
        Meta(
            description="Every rank, with its present or last node; of a large job only those that "
            "are not well."
        ),
    ] = ()
    unlisted: Annotated[
        int,
        Meta(
            description="How many ranks are not listed: of a large job only those are that are "
            "not well."
        ),
    ] = 0
    packed: Annotated[
        str,
        Meta(
            description="Of a large job: what its controller remembers of every rank, compressed. "
            "`resile describe` shows it."
        ),
    ] = ""
    decisions: Annotated[
        tuple[DecisionNote, ...], Meta(description="The most recent decisions, oldest first.")
    ] = ()
    pending_requests: Annotated[
        tuple[NodeRequest, ...], Meta(description="Requests whose effect has not shown yet.")
    ] = ()
    troubled_hosts: Annotated[
        tuple[HostTrouble, ...],
        Meta(description="Machines that new nodes keep away from for a while."),
    ] = ()
    next_id: Annotated[int, Meta(description="The id of the next node.")] = 0
    spent: Annotated[
        int, Meta(description="Relaunches that counted against a budget, in the whole job.")
    ] = 0
    start_time: Annotated[datetime | None, Meta(description="When it was started, or resumed.")] = (
        None
    )
    completion_time: Annotated[datetime | None, Meta(description="When it ended.")] = None
    ready: Annotated[str, Meta(description="Nodes that run, of those wanted in all: 3/4.")] = ""
    restarts: Annotated[
        int,
        Meta(
            description="Nodes replaced so far in the whole job, for whatever cause.",
            extra_json_schema={"default": 0},  # for its column, because zeros are not written
        ),
    ] = 0
    replicas: Annotated[
        int, Meta(description="Nodes of the scaled role that run now: what an autoscaler reads.")
    ] = 0
    selector: Annotated[
        str,
        Meta(description="The label selector an autoscaler finds the scaled role's pods by."),
    ] = ""
    step: Annotated[int | None, Meta(description="The training step the master last heard of.")] = (
        None
    )
    total_steps: Annotated[
        int | None, Meta(description="How many steps there will be, if the script says so.")
    ] = None
    loss: Annotated[float | None, Meta(description="The loss that was reported last.")] = None
    throughput: Annotated[
        str, Meta(description="How fast the training is, with its unit: 12.3 steps/s.")
    ] = ""
    round: Annotated[
        int | None, Meta(description="The number of the present round: one agreed membership.")
    ] = None
    world_size: Annotated[
        int | None, Meta(description="How many workers the present round has.")
    ] = None
    training: Annotated[
        TrainingView | None,
        Meta(description="What the job's master saw of the training of its main group."),
    ] = None
    groups: Annotated[
        dict[str, TrainingView],
        Meta(
            description="The training of every other group, by name; of a large job only of groups "
            "that are not well.",
            extra_json_schema={"x-kubernetes-map-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=dict)
    unlisted_groups: Annotated[
        int, Meta(description="How many groups are not listed, because they are well.")
    ] = 0
    observed_generation: Annotated[
        int | None,
        Meta(description="The generation of the spec that this status was made for."),
    ] = None

    @property
    def finished(self) -> bool:
        """Return whether the job has ended, successfully or not."""
        return self.phase in FINISHED

    @property
    def master_problem(self) -> str:
        """The reason why the job cannot have a master; empty if it can."""
        found = self.condition(ConditionType.MASTER_READY)
        return found.message if found is not None and found.reason == MASTER_UNAVAILABLE else ""

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of that type; None if it is not listed."""
        return next((found for found in self.conditions if found.type is kind), None)
