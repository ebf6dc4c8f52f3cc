"""The manifest of a job: ``apiVersion: resile.dev/v1alpha1``, kind ``ElasticJob``.

The same manifest runs on one machine and on Kubernetes. Properties and methods here fill in
defaults, rather than the data, so that a dumped manifest is what its author wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from resile.job.elasticity import Elasticity, GroupSuccess, RoleSize
from resile.job.limits import MAX_ROLES
from resile.job.spec.cluster import GangPolicy, MasterSpec, managed_elsewhere
from resile.job.spec.fields import (
    ENTRIES,
    Annotation,
    Argument,
    Count,
    DnsLabel,
    Key,
    LeaseSeconds,
    ManifestStruct,
    Namespace,
    NodeCount,
    PositiveSeconds,
    Seconds,
    Text,
)
from resile.job.spec.groups import DEFAULT_GROUP, GroupSpec, GroupSuccessPolicy, solo_group
from resile.job.spec.names import NamesSpec
from resile.job.spec.role import DependencyCondition, FailurePolicy, RoleKind, RoleSpec

__all__ = [
    "API_VERSION",
    "KIND",
    "BackoffSpec",
    "CleanPolicy",
    "ElasticJob",
    "JobSpec",
    "Metadata",
    "RendezvousSpec",
    "SuccessSpec",
]

API_VERSION = "resile.dev/v1alpha1"
KIND = "ElasticJob"

CHIEF, WORKER = "chief", "worker"
LEADERS = (CHIEF, "master")
"""Roles that get the first ranks of a group whose order the manifest does not give."""

KINDS_BY_NAME = {"ps": RoleKind.SERVER, "evaluator": RoleKind.PROGRAM}
"""The default kinds of roles with these names."""

COUNTED_KINDS = frozenset({RoleKind.LOCKSTEP, RoleKind.INDEPENDENT})
"""Kinds of role that complete; a job's success waits for them."""

_DEFAULTS = Elasticity()
_SUCCESS = {
    GroupSuccessPolicy.ALL: GroupSuccess.ALL,
    GroupSuccessPolicy.FIRST_ROLE: GroupSuccess.FIRST,
    GroupSuccessPolicy.ANY: GroupSuccess.ANY,
}


class CleanPolicy(str, Enum):
    """The nodes that are stopped or deleted when a job has finished."""

    RUNNING = "Running"
    """Running nodes are stopped; ended ones are kept, so that their logs can be read."""

    ALL = "All"
    NONE = "None"


class Metadata(ManifestStruct, frozen=True, kw_only=True):
    """Name and labels, as in any Kubernetes object."""

    name: Annotated[DnsLabel, Meta(description="The job's name, unique in its namespace.")]
    namespace: Annotated[Namespace, Meta(description="Kubernetes namespace.")] = "default"
    labels: Annotated[
        Annotated[dict[Key, Argument], ENTRIES], Meta(description="For your own selectors.")
    ] = msgspec.field(default_factory=dict)
    annotations: Annotated[
        Annotated[dict[Key, Annotation], ENTRIES],
        Meta(description="For your own annotations."),
    ] = msgspec.field(default_factory=dict)


class RendezvousSpec(ManifestStruct, frozen=True, kw_only=True):
    """The timeouts of the rendezvous."""

    last_call_seconds: Annotated[
        Seconds,
        Meta(description="First round only: how long to wait for more nodes once min have joined."),
    ] = _DEFAULTS.last_call
    join_timeout_seconds: Annotated[
        PositiveSeconds, Meta(description="How long to wait for min nodes before the job fails.")
    ] = _DEFAULTS.join_timeout
    lease_seconds: Annotated[
        LeaseSeconds, Meta(description="A node that is silent for this long is dead.")
    ] = _DEFAULTS.lease
    connection_grace_seconds: Annotated[
        Seconds,
        Meta(description="A node that lost its connection is dead if not back by then."),
    ] = _DEFAULTS.connection_grace
    evidence_grace_seconds: Annotated[
        Seconds,
        Meta(description="connectionGraceSeconds if workers of other nodes failed too."),
    ] = _DEFAULTS.evidence_grace
    verdict_window_seconds: Annotated[
        Seconds,
        Meta(description="How long the last failure waits for signs that a lost node caused it."),
    ] = _DEFAULTS.verdict_window
    join_settle_seconds: Annotated[
        Seconds, Meta(description="Nodes that join within this time enter the same new round.")
    ] = _DEFAULTS.join_settle
    forming_timeout_seconds: Annotated[
        PositiveSeconds, Meta(description="A member not ready for a new round by then is evicted.")
    ] = _DEFAULTS.forming_timeout
    start_timeout_seconds: Annotated[
        Seconds,
        Meta(description="A worker that has not reached its process group by then failed. 0: off."),
    ] = _DEFAULTS.start_timeout
    handover_timeout_seconds: Annotated[
        Seconds,
        Meta(description="How long a planned change waits for workers to save the same step."),
    ] = _DEFAULTS.handover_timeout


class BackoffSpec(ManifestStruct, frozen=True, kw_only=True):
    """The pause before a rank that keeps crashing is relaunched. There is none before the first."""

    base_seconds: Annotated[
        Seconds, Meta(description="Pause before the second relaunch; doubled for each further one.")
    ] = 1.0
    ceiling_seconds: Annotated[Seconds, Meta(description="The longest pause.")] = 300.0
    reset_seconds: Annotated[
        Seconds, Meta(description="A node that ran this long resets the pause.")
    ] = 60.0


class SuccessSpec(ManifestStruct, frozen=True, kw_only=True):
    """When the job succeeds."""

    roles: Annotated[
        Annotated[tuple[DnsLabel, ...], ENTRIES],
        Meta(
            description="Roles that have to complete. Default: chief if there is one, else worker, "
            "else every role of kind Lockstep or Independent."
        ),
    ] = ()
    policy: Annotated[
        Literal["All", "Any"],
        Meta(description="Whether All these roles have to complete, or Any one of them."),
    ] = "All"


class JobSpec(ManifestStruct, frozen=True, kw_only=True):
    """The roles of a job and how it is run."""

    roles: Annotated[
        dict[DnsLabel, RoleSpec],
        Meta(
            min_length=1,
            max_length=MAX_ROLES,
            description="The kinds of node: worker, ps, chief, evaluator, …",
        ),
    ]
    groups: Annotated[
        Annotated[dict[DnsLabel, GroupSpec], Meta(max_length=MAX_ROLES)],
        Meta(
            description="The roles that share a world, by the name of their group. Default: all "
            "Lockstep roles in one group named train, chief and master first, then by name."
        ),
    ] = msgspec.field(default_factory=dict)
    names: Annotated[
        NamesSpec, Meta(description="Patterns for the names of nodes, Services and other objects.")
    ] = NamesSpec()
    replicas: Annotated[
        NodeCount | None,
        Meta(
            description="Wanted nodes of the scaled role, as set by `kubectl scale` and "
            "autoscalers. It overrides the role's own wanted size, within its bounds."
        ),
    ] = None
    rendezvous: Annotated[RendezvousSpec, Meta(description="The timeouts of the rendezvous.")] = (
        RendezvousSpec()
    )
    max_restarts: Annotated[
        Count,
        Meta(
            description="How many rounds may end by a worker's own failure before the training "
            "fails. Lost nodes do not count."
        ),
    ] = _DEFAULTS.max_restarts
    suspend: Annotated[
        bool, Meta(description="Stop all nodes and keep the job; no budget is spent.")
    ] = False
    active_deadline_seconds: Annotated[
        PositiveSeconds | None,
        Meta(description="The job fails when it has run this long. Suspended time does not count."),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, Meta(description="The job is deleted this long after it has finished.")
    ] = None
    backoff_limit: Annotated[
        Count | None,
        Meta(description="Most relaunches that failures may cost in the whole job; then it fails."),
    ] = None
    backoff: Annotated[BackoffSpec, Meta(description="The pause between repeated crashes.")] = (
        BackoffSpec()
    )
    clean_pod_policy: Annotated[
        CleanPolicy,
        Meta(
            description="When the job has finished: Running stops nodes that still run, All also "
            "deletes those that have ended, None keeps everything."
        ),
    ] = CleanPolicy.RUNNING
    success: Annotated[SuccessSpec, Meta(description="When the job succeeds.")] = SuccessSpec()
    gang_scheduling: Annotated[
        GangPolicy,
        Meta(
            description="How nodes are placed: None places each on its own, SchedulingGates holds "
            "them back until min exist, PodGroup leaves it to a scheduler that supports "
            "PodGroups. Not used on one machine."
        ),
    ] = GangPolicy.NONE
    managed_by: Annotated[
        Text | None,
        Meta(
            description="Another controller that manages this job; Resile's operator then ignores "
            "it. Not used on one machine."
        ),
    ] = None
    master: Annotated[
        MasterSpec, Meta(description="The pod of the job's master. Not used on one machine.")
    ] = MasterSpec()

    @property
    def managed_elsewhere(self) -> bool:
        """Whether a controller other than Resile's operator manages the job."""
        return managed_elsewhere(self.managed_by)

    @property
    def most_nodes(self) -> int:
        """The most nodes that the job may have, in all roles together."""
        return sum(role.size.max for role in self.roles.values())

    def why_not_sizes(self, sizes: Mapping[str, int]) -> str:
        """Return what is wrong with the first size that a role cannot have; empty if all can."""
        for role, nodes in sizes.items():
            if role not in self.roles:
                return f"there is no role '{role}'; there are {', '.join(self.roles)}"
            if problem := self.roles[role].why_not_size(role, nodes):
                return problem
        return ""

    def scaled_role(self) -> str | None:
        """The role that ``replicas`` sizes: worker, else the only training role, else the only one.

        None if that is ambiguous.
        """
        if WORKER in self.roles:
            return WORKER
        for names in (self.training_roles(), tuple(self.roles)):
            if len(names) == 1:
                return names[0]
        return None

    def kind_of(self, role: str) -> RoleKind:
        """The kind of a role, from the manifest or by default."""
        spec = self.roles[role]
        if spec.kind is not None:
            return spec.kind
        trains = RoleKind.LOCKSTEP if spec.script or spec.module else RoleKind.INDEPENDENT
        return KINDS_BY_NAME.get(role, trains)

    def success_roles(self) -> tuple[str, ...]:
        """The roles that have to complete for the job to succeed."""
        if self.success.roles:
            return tuple(self.success.roles)
        counted = tuple(name for name in self.roles if self.kind_of(name) in COUNTED_KINDS)
        for usual in (CHIEF, WORKER):
            if usual in counted:
                return (usual,)
        return counted or tuple(self.roles)

    def failure_policy(self, role: str) -> FailurePolicy:
        """The rule by which nodes of ``role`` that were given up fail the job."""
        spec = self.roles[role]
        if spec.failure_policy is not None:
            return spec.failure_policy
        required = spec.required
        if required is None:
            required = self.kind_of(role) is not RoleKind.PROGRAM
        return FailurePolicy.BELOW_MIN if required else FailurePolicy.IGNORE

    def requires(self, role: str) -> bool:
        """Whether the job cannot continue without ``role``."""
        return self.failure_policy(role) is not FailurePolicy.IGNORE

    def dependencies(self, role: str) -> dict[str, DependencyCondition]:
        """The roles that ``role`` waits for, and the state they must have reached."""
        return {
            name: condition or self._usual_dependency(name)
            for name, condition in self.roles[role].dependencies.items()
        }

    def _usual_dependency(self, name: str) -> DependencyCondition:
        serves = name in self.roles and self.kind_of(name) is RoleKind.SERVER
        answers = serves and bool(self.roles[name].ports)
        return DependencyCondition.READY if answers else DependencyCondition.RUNNING

    # --- groups -----------------------------------------------------------------------------

    def worlds(self) -> dict[str, tuple[str, ...]]:
        """The roles of each group in the order of their ranks, the main group first."""
        if self.groups:
            main = self.main_group
            names = sorted(self.groups, key=lambda name: (name != main, name))
            return {name: self.groups[name].roles for name in names}
        roles = [name for name in self.roles if self.kind_of(name) is RoleKind.LOCKSTEP]
        # An API server does not keep the order of a map, so that cannot be the order of ranks.
        ordered = sorted(roles, key=lambda name: (name not in LEADERS, name))
        return {DEFAULT_GROUP: tuple(ordered)} if ordered else {}

    @property
    def main_group(self) -> str:
        """The group whose progress stands for the job's: train, or the first by name."""
        return (
            DEFAULT_GROUP if DEFAULT_GROUP in self.groups or not self.groups else min(self.groups)
        )

    def group_of(self, role: str) -> str | None:
        """The group that a role is part of; None if each of its nodes is a world of its own."""
        return next((name for name, roles in self.worlds().items() if role in roles), None)

    def wire_group(self, role: str, rank: int) -> str:
        """The group that a node joins, by its name on the wire: empty for the main group."""
        group = self.group_of(role)
        if group is None:
            return solo_group(role, rank)
        return "" if group == self.main_group else group

    def training_roles(self) -> tuple[str, ...]:
        """The roles of the main group, in the order of their ranks."""
        return self.worlds().get(self.main_group, ())

    def elasticity(self, group: str | None = None) -> Elasticity:
        """The sizes and timeouts of a group's rounds; the main group's if None."""
        name = self.main_group if group is None else group
        names = self.worlds().get(name, ())
        roles = [self.roles[role] for role in names]
        shared = len(roles) > 1
        spec = self.groups.get(name)
        own_restarts = spec.max_restarts if spec is not None else None
        return self._with_timeouts(
            min_nodes=max(1, sum(role.size.min for role in roles)),
            max_nodes=max(1, sum(role.size.max for role in roles)),
            node_unit=roles[0].node_unit if len(roles) == 1 else 1,
            roles=tuple(map(self._role_size, names)) if shared else (),
            max_restarts=self.max_restarts if own_restarts is None else own_restarts,
            success=_SUCCESS[GroupSuccessPolicy.ALL if spec is None else spec.success_policy],
        )

    def solo_elasticity(self) -> Elasticity:
        """The sizes and timeouts of a node that is a world of its own."""
        return self._with_timeouts(max_restarts=self.max_restarts, independent=True)

    def _with_timeouts(self, **sizes: Any) -> Elasticity:
        timeouts = self.rendezvous
        return Elasticity(
            **sizes,
            last_call=timeouts.last_call_seconds,
            join_timeout=timeouts.join_timeout_seconds,
            lease=timeouts.lease_seconds,
            connection_grace=timeouts.connection_grace_seconds,
            evidence_grace=timeouts.evidence_grace_seconds,
            verdict_window=timeouts.verdict_window_seconds,
            join_settle=timeouts.join_settle_seconds,
            forming_timeout=timeouts.forming_timeout_seconds,
            start_timeout=timeouts.start_timeout_seconds,
            handover_timeout=timeouts.handover_timeout_seconds,
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
    """A whole manifest, as a person writes it in a file."""

    api_version: Literal["resile.dev/v1alpha1"]
    kind: Literal["ElasticJob"]
    metadata: Metadata
    spec: JobSpec
