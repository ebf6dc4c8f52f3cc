"""A role of a job, as its manifest describes it.

Some fields accept more than one notation and keep what was written (``replicas: 2`` or a mapping,
``env`` as a mapping or as Kubernetes' list); properties return the one form that the rest of the
code works with. Relations between fields, such as MIN and MAX, are checked in ``checks``.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from resile.job.limits import MAX_RESTARTS
from resile.job.spec.fields import (
    ENTRIES,
    Argument,
    Arguments,
    DnsLabel,
    Key,
    ManifestStruct,
    NodeCount,
    NodeUnit,
    PathText,
    PortName,
    PortNumber,
    Seconds,
    Text,
    WorkerCount,
)
from resile.job.spec.quantity import Amount, parse_quantity

__all__ = [
    "CodeRange",
    "DependencyCondition",
    "EnvVar",
    "ExitAction",
    "ExitRule",
    "FailurePolicy",
    "MemoryGrowth",
    "NodeResources",
    "Replicas",
    "ResourceSpec",
    "RestartBudget",
    "RestartPolicy",
    "RoleKind",
    "RoleSpec",
    "Size",
    "SuccessPolicy",
]

UNLIMITED = -1
_Budget = Annotated[int, Meta(ge=UNLIMITED, le=MAX_RESTARTS)]
_ExitCode = Annotated[int, Meta(ge=0, le=255)]


class RestartPolicy(str, Enum):
    """The rule by which a node that ended by itself is replaced."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class RoleKind(str, Enum):
    """How the nodes of a role relate to the others of their job."""

    LOCKSTEP = "Lockstep"
    """They train in one world with all roles of their group: rounds, ranks, one failure stops all
    until the next round."""

    INDEPENDENT = "Independent"
    """Each starts, fails and is replaced without stopping the others: workers of a parameter-server
    job, TensorFlow workers."""

    SERVER = "Server"
    """Long-lived: others wait until it is ready, and the job's success does not wait for it."""

    PROGRAM = "Program"
    """Runs beside the training, such as an evaluator; neither success nor failure of the job
    depends on it."""


class SuccessPolicy(str, Enum):
    """The nodes of a role that have to complete for the role to complete."""

    ALL = "All"
    ANY = "Any"
    RANK_0 = "Rank0"


class FailurePolicy(str, Enum):
    """When nodes that were given up fail the job."""

    BELOW_MIN = "BelowMin"
    ANY_NODE = "AnyNode"
    IGNORE = "Ignore"


class DependencyCondition(str, Enum):
    """The state of a role that another role waits for, reached by at least min of its nodes."""

    RUNNING = "Running"
    READY = "Ready"
    """Running and ready: pods are Ready; on one machine, ports accept connections."""

    SUCCEEDED = "Succeeded"


class ExitAction(str, Enum):
    """The action of an exit-code rule."""

    FAIL = "Fail"
    RELAUNCH = "Relaunch"
    RELAUNCH_FREE = "RelaunchFree"
    SUCCEED = "Succeed"


class Size(ManifestStruct, frozen=True, kw_only=True):
    """How many nodes a role may have, with all defaults filled in."""

    min: int
    max: int
    wanted: int


class Replicas(ManifestStruct, frozen=True, kw_only=True):
    """How many nodes an elastic role has."""

    min: Annotated[
        NodeCount | None,
        Meta(description="Fewest nodes that can train. Default: 1 (0 if max is 0)."),
    ] = None
    max: Annotated[
        NodeCount | None,
        Meta(description="Most nodes. Default: the greater of min and wanted."),
    ] = None
    wanted: Annotated[
        NodeCount | None,
        Meta(description="How many to run now, if there is room. Default: max."),
    ] = None


class EnvVar(ManifestStruct, frozen=True, kw_only=True):
    """An environment variable, in Kubernetes' notation."""

    name: Annotated[Text, Meta(description="Name of the variable.")]
    value: Annotated[Argument, Meta(description="Its value.")] = ""


class NodeResources(ManifestStruct, frozen=True, kw_only=True):
    """Requests and limits of one node, as canonical quantities."""

    requests: Annotated[dict[str, str], Meta(description="Amounts it was placed with.")] = (
        msgspec.field(default_factory=dict)
    )
    limits: Annotated[dict[str, str], Meta(description="Amounts it may use at most.")] = (
        msgspec.field(default_factory=dict)
    )


class ResourceSpec(ManifestStruct, frozen=True, kw_only=True):
    """Requests and limits of each node of the role, as written."""

    requests: Annotated[
        Annotated[dict[Key, Amount], ENTRIES],
        Meta(description="Amounts a node needs. Missing entries are taken from limits."),
    ] = msgspec.field(default_factory=dict)
    limits: Annotated[
        Annotated[dict[Key, Amount], ENTRIES],
        Meta(description="Amounts a node may use at most. No entry means no limit."),
    ] = msgspec.field(default_factory=dict)

    def resolved(self) -> NodeResources:
        """Requests filled from limits, as Kubernetes does; every amount in its canonical form."""
        requests = {name: str(parse_quantity(amount)) for name, amount in self.requests.items()}
        limits = {name: str(parse_quantity(amount)) for name, amount in self.limits.items()}
        return NodeResources(requests={**limits, **requests}, limits=limits)


class RestartBudget(ManifestStruct, frozen=True, kw_only=True):
    """How many relaunches failures may cost. -1 means no limit, 0 no relaunch."""

    per_node: Annotated[_Budget, Meta(description="For each rank, over the job's life.")] = 3
    per_role: Annotated[_Budget, Meta(description="For all ranks of the role together.")] = (
        UNLIMITED
    )


class MemoryGrowth(ManifestStruct, frozen=True, kw_only=True):
    """More memory for a rank whose node ran out of it."""

    factor: Annotated[
        float, Meta(ge=1, le=16, description="Factor by which memory grows. 1 turns growth off.")
    ] = 2.0
    ceiling: Annotated[
        Amount,
        Meta(description="Most memory of a node. Running out of that much is permanent."),
    ] = "64Gi"


class CodeRange(ManifestStruct, frozen=True, kw_only=True):
    """Exit codes from min to max, both included."""

    min: Annotated[_ExitCode, Meta(description="The first code, 0 to 255.")]
    max: Annotated[_ExitCode, Meta(description="The last code, 0 to 255.")]


class ExitRule(ManifestStruct, frozen=True, kw_only=True):
    """A rule for exit codes of a node's program."""

    codes: Annotated[
        Annotated[tuple[_ExitCode, ...], ENTRIES], Meta(description="Single codes.")
    ] = ()
    range: Annotated[CodeRange | None, Meta(description="All codes from min to max.")] = None
    action: Annotated[
        ExitAction,
        Meta(
            description="Fail: the rank is given up. Relaunch: replaced, budget spent. "
            "RelaunchFree: replaced, no budget spent. Succeed: the rank is done."
        ),
    ]

    def matches(self, code: int) -> bool:
        """Whether this rule applies to ``code``."""
        in_range = self.range is not None and self.range.min <= code <= self.range.max
        return in_range or code in self.codes


class RoleSpec(ManifestStruct, frozen=True, kw_only=True):
    """A kind of node in a job."""

    kind: Annotated[
        RoleKind | None,
        Meta(
            description="Lockstep trains in one world with its group, Independent works alone, "
            "Server runs as long as the job and others wait for it, Program runs beside the "
            "training. Default: Server for a role named ps, Program for evaluator, Lockstep for "
            "others with a script or module, else Independent."
        ),
    ] = None
    replicas: Annotated[
        NodeCount | Replicas,
        Meta(description="A number for a fixed size, or {min, max, wanted} for an elastic one."),
    ] = 1
    node_unit: Annotated[
        NodeUnit, Meta(description="The number of nodes is always a multiple of this.")
    ] = 1
    command: Annotated[
        Arguments, Meta(description="The process a node runs, as in a container.")
    ] = ()
    script: Annotated[
        PathText | None,
        Meta(description="A Python script; the node runs `resile run` with it. Not with command."),
    ] = None
    module: Annotated[
        Text | None,
        Meta(description="Like script, for a Python module (`resile run -m`)."),
    ] = None
    args: Annotated[Arguments, Meta(description="Arguments of the command, script or module.")] = ()
    procs_per_node: Annotated[
        WorkerCount | Literal["auto", "cpu", "gpu"],
        Meta(description="Workers on each node, for script and module: a number, auto, cpu, gpu."),
    ] = 1
    image: Annotated[Text | None, Meta(description="Container image. Not used on one machine.")] = (
        None
    )
    env: Annotated[
        Annotated[dict[Text, Argument], ENTRIES] | Annotated[tuple[EnvVar, ...], ENTRIES],
        Meta(description="Environment: a mapping, or a list of {name, value}."),
    ] = msgspec.field(default_factory=dict)
    working_dir: Annotated[
        PathText | None,
        Meta(description="Working directory of the process. Default: the platform's."),
    ] = None
    resources: Annotated[ResourceSpec, Meta(description="Resources of each node.")] = ResourceSpec()
    restart_policy: Annotated[
        RestartPolicy,
        Meta(
            description="Whether nodes that fail are replaced: Never, OnFailure, Always (also "
            "after success, unless the job's success depends on this role), or ExitCode. "
            "Nodes taken away by the platform are replaced under every policy."
        ),
    ] = RestartPolicy.ON_FAILURE
    restart_budget: Annotated[
        RestartBudget, Meta(description="How many relaunches failures may cost.")
    ] = RestartBudget()
    exit_codes: Annotated[
        Annotated[tuple[ExitRule, ...], ENTRIES],
        Meta(description="Rules for the program's exit codes; the first match applies."),
    ] = ()
    memory_growth: Annotated[
        MemoryGrowth, Meta(description="More memory after an out-of-memory kill.")
    ] = MemoryGrowth()
    termination_grace_period_seconds: Annotated[
        Seconds, Meta(description="Time between SIGTERM and SIGKILL when a node is stopped.")
    ] = 30.0
    priority: Annotated[
        int | float | str | None,
        Meta(
            description="An integer; the name of a priority class such as high or low; or the "
            "fraction of ranks that is high while the rest is low, as 0.5 or high=0.5."
        ),
    ] = None
    ports: Annotated[
        Annotated[dict[PortName, PortNumber], ENTRIES],
        Meta(
            description="Ports that each node listens on, by name. Every node has a stable address "
            "for them, which a replacement takes over; on one machine the numbers are chosen for "
            "each rank (RESILE_PORT_<NAME>)."
        ),
    ] = msgspec.field(default_factory=dict)
    depends_on: Annotated[
        Annotated[tuple[DnsLabel, ...], ENTRIES]
        | Annotated[dict[DnsLabel, DependencyCondition], ENTRIES],
        Meta(
            description="Roles that this one waits for before its nodes are started: a list, or a "
            "mapping to the state they must have reached (Running, Ready, Succeeded). A list means "
            "Ready for a Server with ports, otherwise Running."
        ),
    ] = ()
    success_policy: Annotated[
        SuccessPolicy,
        Meta(
            description="When the role is complete: when All its nodes are (at least min), Any "
            "one, or Rank0. A Lockstep role completes with its group instead."
        ),
    ] = SuccessPolicy.ALL
    failure_policy: Annotated[
        FailurePolicy | None,
        Meta(
            description="When nodes that were given up fail the job: BelowMin (the role can no "
            "longer have min nodes), AnyNode, or Ignore. Default: Ignore for kind Program and "
            "where required is false, otherwise BelowMin."
        ),
    ] = None
    required: Annotated[
        bool | None,
        Meta(description="False is another way to write failurePolicy Ignore, true BelowMin."),
    ] = None
    service_account: Annotated[
        Text | None,
        Meta(description="The service account of the role's pods. Not used on one machine."),
    ] = None
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Meta(description="When the image is pulled. Not used on one machine."),
    ] = None
    image_pull_secrets: Annotated[
        Annotated[tuple[Text, ...], ENTRIES],
        Meta(description="Names of Secrets to pull the image with. Not used on one machine."),
    ] = ()
    shared_memory: Annotated[
        Amount | None,
        Meta(
            description="The size of /dev/shm, which holds the snapshots. Default: the memory "
            "limit; without one, as much as the machine allows. 0: no volume, only the few "
            "megabytes that containers have. Not used on one machine."
        ),
    ] = None
    volumes: Annotated[
        Annotated[tuple[dict[str, Any], ...], ENTRIES],
        Meta(description="Kubernetes volumes, passed on as is. Not used on one machine."),
    ] = ()
    volume_mounts: Annotated[
        Annotated[tuple[dict[str, Any], ...], ENTRIES],
        Meta(description="Where the volumes are mounted. Not used on one machine."),
    ] = ()
    tolerations: Annotated[
        Annotated[tuple[dict[str, Any], ...], ENTRIES],
        Meta(description="Taints the role's pods tolerate. Not used on one machine."),
    ] = ()
    node_selector: Annotated[
        Annotated[dict[Key, Argument], ENTRIES],
        Meta(description="Labels of the machines its pods may run on. Not used on one machine."),
    ] = msgspec.field(default_factory=dict)
    template: Annotated[
        dict[str, Any],
        Meta(description="A Kubernetes pod template, passed on as is. Not used on one machine."),
    ] = msgspec.field(default_factory=dict)

    def why_not_size(self, role: str, nodes: int) -> str:
        """Return why the role, named ``role``, cannot have so many nodes; empty if it can."""
        fixed = self.replicas
        if isinstance(fixed, int):
            if nodes == fixed:
                return ""
            return (
                f"role {role} has {fixed} node{'' if fixed == 1 else 's'}, always; give its "
                "replicas a min and a max in the manifest to have it scaled"
            )
        bounds = self.size
        if not bounds.min <= nodes <= bounds.max:
            return (
                f"role {role} may have {bounds.min} to {bounds.max} nodes, not {nodes} "
                "(min and max in the manifest)"
            )
        if nodes % self.node_unit:
            return f"role {role} grows in units of {self.node_unit} nodes (nodeUnit)"
        return ""

    @property
    def size(self) -> Size:
        """The three sizes with all defaults filled in."""
        if isinstance(self.replicas, int):
            return Size(min=self.replicas, max=self.replicas, wanted=self.replicas)
        asked = self.replicas
        most = asked.max if asked.max is not None else max(asked.min or 0, asked.wanted or 0, 1)
        least = asked.min if asked.min is not None else min(1, most)
        return Size(min=least, max=most, wanted=asked.wanted if asked.wanted is not None else most)

    @property
    def dependencies(self) -> dict[str, DependencyCondition | None]:
        """The roles it waits for, and the state; None where the manifest gives no state."""
        if isinstance(self.depends_on, dict):
            return dict(self.depends_on)
        return dict.fromkeys(self.depends_on)

    @property
    def environment(self) -> dict[str, str]:
        """The environment as a mapping, whichever way it was written."""
        if isinstance(self.env, dict):
            return self.env
        return {variable.name: variable.value for variable in self.env}
