"""A whole job, as its manifest describes it: ``apiVersion: resile.dev/v1alpha1``, ``ElasticJob``.

The same manifest runs on one machine and on Kubernetes. Defaults are filled in by properties and
methods here rather than written into the data, so that a dumped manifest is what its author wrote.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from resile.job.cluster import GangPolicy, MasterSpec, managed_elsewhere
from resile.job.elasticity import Elasticity, RoleSize
from resile.job.fields import (
    ENTRIES,
    Annotation,
    Argument,
    Count,
    Key,
    Label,
    LeaseSeconds,
    ManifestStruct,
    Namespace,
    NodeCount,
    PositiveSeconds,
    Seconds,
    Text,
)
from resile.job.limits import MOST_ROLES
from resile.job.role import RoleSpec

__all__ = [
    "API_VERSION",
    "KIND",
    "Backoff",
    "CleanPolicy",
    "ElasticJob",
    "JobSpec",
    "Metadata",
    "RendezvousSpec",
    "SuccessSpec",
]

API_VERSION = "resile.dev/v1alpha1"
KIND = "ElasticJob"

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
LEADERS = (CHIEF, "master")
"""Roles whose nodes have the first ranks of a world that they share with others."""

HELPERS = frozenset({PS, EVALUATOR})
"""Roles that serve the training and have no end of their own."""

_PATIENCE = Elasticity()


class CleanPolicy(str, Enum):
    """What happens to a job's nodes when it is over."""

    RUNNING = "Running"
    """Those that still run are stopped; the ended ones stay, so that their logs can be read."""

    ALL = "All"
    NONE = "None"


class Metadata(ManifestStruct, frozen=True, kw_only=True):
    """Name and labels, as of any Kubernetes object."""

    name: Annotated[Label, Meta(description="The job's name, unique in its namespace.")]
    namespace: Annotated[Namespace, Meta(description="Kubernetes namespace.")] = "default"
    labels: Annotated[
        Annotated[dict[Key, Argument], ENTRIES], Meta(description="For your own selections.")
    ] = msgspec.field(default_factory=dict)
    annotations: Annotated[
        Annotated[dict[Key, Annotation], ENTRIES], Meta(description="For your own notes.")
    ] = msgspec.field(default_factory=dict)


class RendezvousSpec(ManifestStruct, frozen=True, kw_only=True):
    """How patient the nodes' agreement is."""

    last_call_seconds: Annotated[
        Seconds,
        Meta(description="First round only: how long to wait for more nodes once min are there."),
    ] = _PATIENCE.last_call
    join_timeout_seconds: Annotated[
        PositiveSeconds, Meta(description="How long a job below min waits before it gives up.")
    ] = _PATIENCE.join_timeout
    lease_seconds: Annotated[
        LeaseSeconds, Meta(description="Silence this long is proof that a node is dead.")
    ] = _PATIENCE.lease
    connection_grace_seconds: Annotated[
        Seconds, Meta(description="A closed connection is proof when not back by then.")
    ] = _PATIENCE.connection_grace
    evidence_grace_seconds: Annotated[
        Seconds, Meta(description="The same, when workers elsewhere failed as well.")
    ] = _PATIENCE.evidence_grace
    verdict_window_seconds: Annotated[
        Seconds,
        Meta(description="A last failure waits this long for news of a lost node behind it."),
    ] = _PATIENCE.verdict_window
    join_settle_seconds: Annotated[
        Seconds, Meta(description="Newcomers within this time are taken in one new round.")
    ] = _PATIENCE.join_settle
    forming_timeout_seconds: Annotated[
        PositiveSeconds, Meta(description="A member not ready for a new round by then is put out.")
    ] = _PATIENCE.forming_timeout
    start_timeout_seconds: Annotated[
        Seconds,
        Meta(description="A worker that has not reached its process group by then failed. 0: off."),
    ] = _PATIENCE.start_timeout
    handover_timeout_seconds: Annotated[
        Seconds,
        Meta(description="How long a planned change waits for workers to save the same step."),
    ] = _PATIENCE.handover_timeout


class Backoff(ManifestStruct, frozen=True, kw_only=True):
    """The pause before a rank that keeps crashing is relaunched. The first relaunch is at once."""

    base_seconds: Annotated[
        Seconds, Meta(description="Pause before the second relaunch; doubles with each further.")
    ] = 1.0
    ceiling_seconds: Annotated[Seconds, Meta(description="The longest pause.")] = 300.0
    reset_seconds: Annotated[
        Seconds, Meta(description="A node that ran this long did not crash at once: start anew.")
    ] = 60.0


class SuccessSpec(ManifestStruct, frozen=True, kw_only=True):
    """When the job has succeeded."""

    roles: Annotated[
        Annotated[tuple[Label, ...], ENTRIES],
        Meta(
            description="Roles whose nodes must all complete. When left out: chief if there is "
            "one, else worker, else every role but ps and evaluator."
        ),
    ] = ()


class JobSpec(ManifestStruct, frozen=True, kw_only=True):
    """What the job consists of and how it is run."""

    roles: Annotated[
        dict[Label, RoleSpec],
        Meta(
            min_length=1,
            max_length=MOST_ROLES,
            description="The kinds of node: worker, ps, chief, evaluator, …",
        ),
    ]
    replicas: Annotated[
        NodeCount | None,
        Meta(
            description="How many nodes the scaled role is to have now; what `kubectl scale` and "
            "an autoscaler set. It overrides the role's own wanted size, within its bounds."
        ),
    ] = None
    rendezvous: Annotated[
        RendezvousSpec, Meta(description="How patient the nodes' agreement is.")
    ] = RendezvousSpec()
    max_restarts: Annotated[
        Count,
        Meta(
            description="How many rounds may break through a worker's own failure before the "
            "training has failed. Lost nodes cost nothing."
        ),
    ] = _PATIENCE.max_restarts
    suspend: Annotated[
        bool, Meta(description="Stop all nodes and keep the job; no budget is spent.")
    ] = False
    active_deadline_seconds: Annotated[
        PositiveSeconds | None,
        Meta(description="The job fails when it has run this long. Suspended time is not counted."),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, Meta(description="The job is deleted this long after it is over.")
    ] = None
    backoff_limit: Annotated[
        Count | None,
        Meta(description="Most relaunches that failures may cost in the whole job; then it fails."),
    ] = None
    backoff: Annotated[Backoff, Meta(description="The pause between repeated crashes.")] = Backoff()
    clean_pod_policy: Annotated[
        CleanPolicy,
        Meta(
            description="When the job is over: Running stops what still runs, All also deletes "
            "what has ended, None leaves everything."
        ),
    ] = CleanPolicy.RUNNING
    success: Annotated[SuccessSpec, Meta(description="When the job has succeeded.")] = SuccessSpec()
    gang_scheduling: Annotated[
        GangPolicy,
        Meta(
            description="Whether nodes are placed together: None places each as it comes, "
            "SchedulingGates holds them back until min exist, PodGroup leaves it to a scheduler "
            "that knows PodGroups. Not used on one machine."
        ),
    ] = GangPolicy.NONE
    managed_by: Annotated[
        Text | None,
        Meta(
            description="Another controller that looks after this job; Resile's operator then "
            "leaves it alone. Not used on one machine."
        ),
    ] = None
    master: Annotated[
        MasterSpec, Meta(description="The pod of the job's master. Not used on one machine.")
    ] = MasterSpec()

    @property
    def managed_elsewhere(self) -> bool:
        """Whether a controller other than Resile's operator looks after the job."""
        return managed_elsewhere(self.managed_by)

    @property
    def most_nodes(self) -> int:
        """How many nodes the job may have at most, in all roles together."""
        return sum(role.size.max for role in self.roles.values())

    def scaled_role(self) -> str | None:
        """The role that ``replicas`` sizes: worker, else the only training role, else the only one.

        None where several could be meant.
        """
        if WORKER in self.roles:
            return WORKER
        for names in (self.training_roles(), tuple(self.roles)):
            if len(names) == 1:
                return names[0]
        return None

    def success_roles(self) -> tuple[str, ...]:
        """The roles whose nodes must complete for the job to succeed."""
        if self.success.roles:
            return tuple(self.success.roles)
        for usual in (CHIEF, WORKER):
            if usual in self.roles:
                return (usual,)
        return tuple(name for name in self.roles if name not in HELPERS) or tuple(self.roles)

    def requires(self, role: str) -> bool:
        """Whether the job fails when ``role`` cannot have its min nodes any more."""
        said = self.roles[role].required
        return said if said is not None else role != EVALUATOR

    def training_roles(self) -> tuple[str, ...]:
        """The roles whose nodes meet in one rendezvous, in the order of their ranks: those that run
        `resile run` to train.

        Leaders first, then by name: a Kubernetes API server does not keep the order of a map.
        """
        training = [
            name
            for name, role in self.roles.items()
            if (role.script or role.module) and name not in HELPERS
        ]
        return tuple(sorted(training, key=lambda name: (name not in LEADERS, name)))

    def elasticity(self) -> Elasticity:
        """What the job's master decides with."""
        roles = [self.roles[name] for name in self.training_roles()]
        shared = len(roles) > 1
        patience = self.rendezvous
        return Elasticity(
            min_nodes=max(1, sum(role.size.min for role in roles)),
            max_nodes=max(1, sum(role.size.max for role in roles)),
            node_unit=roles[0].node_unit if len(roles) == 1 else 1,
            roles=tuple(map(self._role_size, self.training_roles())) if shared else (),
            max_restarts=self.max_restarts,
            last_call=patience.last_call_seconds,
            join_timeout=patience.join_timeout_seconds,
            lease=patience.lease_seconds,
            connection_grace=patience.connection_grace_seconds,
            evidence_grace=patience.evidence_grace_seconds,
            verdict_window=patience.verdict_window_seconds,
            join_settle=patience.join_settle_seconds,
            forming_timeout=patience.forming_timeout_seconds,
            start_timeout=patience.start_timeout_seconds,
            handover_timeout=patience.handover_timeout_seconds,
        )

    def _role_size(self, name: str) -> RoleSize:
        role = self.roles[name]
        return RoleSize(
            name=name,
            min_nodes=role.size.min,
            max_nodes=role.size.max,
            node_unit=role.node_unit,
        )


class ElasticJob(ManifestStruct, frozen=True, kw_only=True):
    """A manifest: what a person writes in a file."""

    api_version: Literal["resile.dev/v1alpha1"]
    kind: Literal["ElasticJob"]
    metadata: Metadata
    spec: JobSpec
