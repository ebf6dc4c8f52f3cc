"""The resources of a rank's node: those of the manifest, with more memory after it ran out.

Memory grows by a factor up to a ceiling (4Gi, 8Gi, … 64Gi by default), only for the rank that ran
out. The request grows with the limit, so that the node is placed where the memory really is. A
limit in the manifest that is higher than what a rank has learnt takes precedence.
"""

from __future__ import annotations

from resile.job.quantity import Quantity, parse_quantity
from resile.job.role import NodeResources, RoleSpec

__all__ = ["grown_memory", "memory_limit", "node_resources"]

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
