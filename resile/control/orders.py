"""Requests to start nodes: for a rank that gets one, and again if a request was lost. Pure."""

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


def unanswered_orders(
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
    return orders_for(job, status, lost, policy=policy)


def orders_for(
    job: ElasticJob,
    status: JobStatus,
    ids: Collection[int | None],
    *,
    policy: Policy = DEFAULT_POLICY,
) -> tuple[StartNode, ...]:
    """The requests for the current nodes of ranks, from the present manifest."""
    return tuple(
        start_order(job, rank, wanted=status.roles[rank.role].wanted, policy=policy)
        for rank in status.nodes
        if rank.phase in LIVE and rank.id in ids
    )
