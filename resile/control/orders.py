"""What a platform is asked for when a rank gets a node, and asked again if that got lost. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from resile.control.actions import StartNode
from resile.control.observed import ObservedNode
from resile.control.policy import DEFAULT_POLICY, Policy
from resile.control.priority import priority_of
from resile.control.resources import node_resources
from resile.job.command import node_command
from resile.job.node import LIVE
from resile.job.role import NodeResources
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus, NodeStatus

__all__ = ["orders_for", "start_order", "unanswered_orders"]


def start_order(
    job: ElasticJob,
    rank: NodeStatus,
    *,
    wanted: int,
    policy: Policy,
    command: tuple[str, ...] | None = None,
    resources: NodeResources | None = None,
) -> StartNode:
    """The order for the node that a rank was just given. ``wanted``: the size of its role;
    ``command`` and ``resources``: if they are known already, being the same for many nodes."""
    role, node = job.spec.roles[rank.role], rank.node
    if node is None:
        raise ValueError(f"{rank.role} rank {rank.rank} was given no node")
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


def unanswered_orders(
    job: ElasticJob,
    status: JobStatus,
    nodes: Iterable[ObservedNode],
    *,
    policy: Policy = DEFAULT_POLICY,
) -> tuple[StartNode, ...]:
    """Orders that were written down and of which no effect was ever seen.

    A controller may be killed between the two. Giving them once more is harmless, because an id
    that is there already is not started again; and of one that is there no more, as far as the
    platform noticed, the status does not speak after ``reconcile``.
    """
    seen = {found.node.id for found in nodes}
    lost = {rank.id for rank in status.nodes if not rank.seen and rank.id not in seen}
    return orders_for(job, status, lost, policy=policy)


def orders_for(
    job: ElasticJob,
    status: JobStatus,
    ids: Collection[int | None],
    *,
    policy: Policy = DEFAULT_POLICY,
) -> tuple[StartNode, ...]:
    """The orders for nodes that ranks hold, as the manifest is now."""
    return tuple(
        start_order(job, rank, wanted=status.roles[rank.role].wanted, policy=policy)
        for rank in status.nodes
        if rank.phase in LIVE and rank.id in ids
    )
