"""Requests to start nodes: the command, resources and priority of a rank's node. Pure.

**Command.** A role's ``command`` is used unchanged. The shorthand ``script`` or ``module`` becomes
a `resile run` with flags for what concerns the whole job: sizes, workers per node, restarts. The
platform adds the master's address, the token and the node's own rank as environment variables.

**Resources.** Those of the manifest, with more memory after a node ran out. Memory grows by a
factor up to a ceiling (4Gi, 8Gi, … 64Gi by default), only for the rank that ran out. The request
grows with the limit, so that the node is placed where the memory really is. A limit in the
manifest that is higher than what a rank has learnt takes precedence.

**Priority.** With a fraction, the first ranks are high and the rest low: a job then keeps a core
of nodes that are not preempted. The count is rounded up, so a fraction above 0 protects at least
one rank.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from resile.control.actions import Priority, StartNode
from resile.control.observed import ObservedNode
from resile.control.policy import DEFAULT_POLICY, Policy
from resile.job.node import LIVE
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.spec.priority import HIGH_CLASS, LOW_CLASS, parse_priority
from resile.job.spec.quantity import Quantity, parse_quantity
from resile.job.spec.role import NodeResources, RoleSpec
from resile.job.status import JobStatus, NodeStatus

__all__ = [
    "LAUNCHER",
    "grown_memory",
    "memory_limit",
    "node_command",
    "node_resources",
    "priority_of",
    "start_request",
    "start_requests_for",
    "unseen_start_requests",
]


LAUNCHER = ("resile", "run")


def node_command(
    spec: JobSpec, role_name: str, *, launcher: Sequence[str] = LAUNCHER
) -> tuple[str, ...]:
    """The argv of a node; empty if the container image decides."""
    role = spec.roles[role_name]
    if role.script is None and role.module is None:
        return (*role.command, *role.args)
    return (*launcher, *_run_flags(spec, role_name), *_program(role), *role.args)


def _run_flags(spec: JobSpec, role_name: str) -> list[str]:
    role = spec.roles[role_name]
    group = spec.group_of(role_name)
    elasticity = spec.solo_elasticity() if group is None else spec.elasticity(group)
    flags = [
        f"--nnodes={elasticity.min_nodes}:{elasticity.max_nodes}",
        f"--nproc-per-node={role.procs_per_node}",
        f"--max-restarts={elasticity.max_restarts}",
        f"--role={role_name}",
    ]
    if elasticity.node_unit > 1:
        flags.append(f"--node-unit={elasticity.node_unit}")
    return flags


def _program(role: RoleSpec) -> tuple[str, ...]:
    if role.module is not None:
        return ("-m", role.module)
    return (role.script,) if role.script is not None else ()


MEMORY = "memory"


def memory_limit(role: RoleSpec, *, learnt: str | None) -> Quantity | None:
    """The memory limit of a rank that is known to need ``learnt``; None if it has no limit."""
    limits = [role.resources.resolved().limits.get(MEMORY), learnt]
    amounts = [parse_quantity(limit) for limit in limits if limit is not None]
    limit = max(amounts, default=Quantity.zero())
    return None if limit == Quantity.zero() else limit


def grown_memory(role: RoleSpec, *, learnt: str | None) -> str | None:
    """The next memory limit after an out-of-memory kill; None if it cannot grow."""
    now = memory_limit(role, learnt=learnt)
    ceiling = parse_quantity(role.memory_growth.ceiling)
    if now is None or now >= ceiling or role.memory_growth.factor == 1:
        return None
    return str(min(ceiling, now.scaled(role.memory_growth.factor)))


def node_resources(role: RoleSpec, *, learnt: str | None) -> NodeResources:
    """The resources of a node on a rank that is known to need ``learnt`` of memory."""
    plain = role.resources.resolved()
    limit = memory_limit(role, learnt=learnt)
    if learnt is None or limit is None:
        return plain
    return NodeResources(
        requests={**plain.requests, MEMORY: str(_request(plain, limit))},
        limits={**plain.limits, MEMORY: str(limit)},
    )


def _request(plain: NodeResources, limit: Quantity) -> Quantity:
    """The memory request, in the same proportion to the limit as in the manifest."""
    if MEMORY not in plain.limits:
        return limit
    growth = limit.amount / parse_quantity(plain.limits[MEMORY]).amount
    return min(limit, parse_quantity(plain.requests[MEMORY]).scaled(growth))


def priority_of(
    role: RoleSpec, rank: int, *, wanted: int, policy: Policy = DEFAULT_POLICY
) -> Priority:
    """The priority of ``rank`` in a role of ``wanted`` nodes."""
    rule = parse_priority(role.priority)
    if rule.high_fraction is not None:
        high = rank < math.ceil(wanted * rule.high_fraction)
        return _of_class(HIGH_CLASS if high else LOW_CLASS, policy)
    if rule.class_name is not None:
        return _of_class(rule.class_name, policy)
    return Priority(value=rule.value or 0)


def _of_class(name: str, policy: Policy) -> Priority:
    values = {HIGH_CLASS: policy.high_priority, LOW_CLASS: policy.low_priority}
    return Priority(value=values.get(name, 0), class_name=name)


def start_request(
    job: ElasticJob,
    rank: NodeStatus,
    *,
    wanted: int,
    policy: Policy,
    command: tuple[str, ...] | None = None,
    resources: NodeResources | None = None,
) -> StartNode:
    """The request to start the node of a rank. ``wanted``: the size of its role; ``command`` and
    ``resources``: if they are already known, because many nodes share them."""
    role, node = job.spec.roles[rank.role], rank.node
    if node is None:
        raise ValueError(f"{rank.role} rank {rank.rank} has no node to start")
    return StartNode(
        node=node,
        command=node_command(job.spec, rank.role) if command is None else command,
        env=role.environment,
        working_dir=role.working_dir,
        resources=resources or node_resources(role, learnt=rank.memory),
        priority=priority_of(role, rank.rank, wanted=wanted, policy=policy),
        grace_seconds=role.termination_grace_period_seconds,
        reason=rank.message,
        group=job.spec.wire_group(rank.role, rank.rank),
        avoid=rank.avoids,
        ports=role.ports,
    )


def unseen_start_requests(
    job: ElasticJob,
    status: JobStatus,
    nodes: Iterable[ObservedNode],
    *,
    policy: Policy = DEFAULT_POLICY,
) -> tuple[StartNode, ...]:
    """Requests that are recorded in the status and whose node was never seen.

    A controller may be killed between recording and sending. Sending again is harmless: an id that
    exists is not started again, and after ``reconcile`` the status no longer has an id that the
    platform saw disappear.
    """
    seen = {found.node.id for found in nodes}
    lost = {rank.id for rank in status.nodes if not rank.seen and rank.id not in seen}
    return start_requests_for(job, status, lost, policy=policy)


def start_requests_for(
    job: ElasticJob,
    status: JobStatus,
    ids: Collection[int | None],
    *,
    policy: Policy = DEFAULT_POLICY,
) -> tuple[StartNode, ...]:
    """The requests for the current nodes of ranks, from the present manifest."""
    return tuple(
        start_request(job, rank, wanted=status.roles[rank.role].wanted, policy=policy)
        for rank in status.nodes
        if rank.phase in LIVE and rank.id in ids
    )
