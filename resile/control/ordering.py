"""Which roles may start: a role waits until those it depends on are up.

A role is up when at least MIN of its nodes run or have succeeded. Nodes are only held back from
starting; one that runs already is left alone when a role below it loses a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from resile.job.node import NodePhase
from resile.job.spec import JobSpec
from resile.job.status import NodeStatus

__all__ = ["UP", "nodes_up", "what_it_waits_for"]

UP = frozenset({NodePhase.RUNNING, NodePhase.SUCCEEDED})
"""The phases of nodes that others may count on."""


def nodes_up(ranks: Iterable[NodeStatus]) -> Mapping[str, int]:
    """How many nodes of each role run or have succeeded."""
    return Counter(rank.role for rank in ranks if rank.phase in UP)


def what_it_waits_for(spec: JobSpec, role: str, *, up: Mapping[str, int]) -> str:
    """A clause naming the roles that ``role`` waits for; empty when it may start."""
    short = []
    for name in spec.roles[role].depends_on:
        least = max(1, spec.roles[name].size.min)
        if up.get(name, 0) < least:
            short.append(f"{name} ({up.get(name, 0)} of {least} running)")
    return f"waits for {' and '.join(short)}" if short else ""
