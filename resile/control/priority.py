"""The priority of each rank of a role.

With a fraction, the first ranks are high and the rest low: a job then keeps a core of nodes that
are not preempted. The count is rounded up, so a fraction above 0 protects at least one rank.
"""

from __future__ import annotations

import math

from resile.control.actions import Priority
from resile.control.policy import DEFAULT_POLICY, Policy
from resile.job.priority import HIGH_CLASS, LOW_CLASS, parse_priority
from resile.job.role import RoleSpec

__all__ = ["priority_of"]


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
