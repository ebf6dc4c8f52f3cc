"""Dependencies between roles: a role waits until those it depends on have reached a state.

A state is reached when at least MIN nodes of the role have reached it. Only the start of nodes is
delayed; one that already runs is not affected when a role it depends on loses a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from resile.job.node import NodePhase
from resile.job.role import DependencyCondition
from resile.job.spec import JobSpec
from resile.job.status import NodeStatus

__all__ = ["UP", "NodeCounts", "count_nodes", "what_it_waits_for"]

UP = frozenset({NodePhase.RUNNING, NodePhase.SUCCEEDED})
"""The phases of nodes that satisfy a dependency on a running role."""

NodeCounts = Mapping[DependencyCondition, Mapping[str, int]]
"""How many nodes of each role have reached each state."""


def count_nodes(ranks: Collection[NodeStatus]) -> NodeCounts:
    """Count the nodes of each role by the states that others may wait for."""
    done = [rank for rank in ranks if rank.phase is NodePhase.SUCCEEDED]
    ready = [rank for rank in ranks if rank.phase is NodePhase.RUNNING and rank.ready]
    return {
        DependencyCondition.RUNNING: _by_role(rank for rank in ranks if rank.phase in UP),
        DependencyCondition.READY: _by_role((*ready, *done)),
        DependencyCondition.SUCCEEDED: _by_role(done),
    }


def _by_role(ranks: Iterable[NodeStatus]) -> Mapping[str, int]:
    return Counter(rank.role for rank in ranks)


def what_it_waits_for(spec: JobSpec, role: str, *, counts: NodeCounts) -> str:
    """A clause naming the roles that ``role`` waits for; empty when it may start."""
    short = []
    for name, condition in spec.dependencies(role).items():
        least = max(1, spec.roles[name].size.min)
        reached = counts[condition].get(name, 0)
        if reached < least:
            short.append(f"{name} ({reached} of {least} {condition.value.lower()})")
    return f"waits for {' and '.join(short)}" if short else ""
