"""Which roles may start: a role waits until those it depends on are up.

A role is up when at least MIN of its nodes run or have succeeded. Nodes are only held back from
starting; one that runs already is left alone when a role below it loses a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from resile.job.spec import JobSpec

__all__ = ["what_it_waits_for"]


def what_it_waits_for(spec: JobSpec, role: str, *, up: Mapping[str, int]) -> str:
    """A clause naming the roles that ``role`` waits for; empty when it may start.

    ``up`` is how many nodes of each role run or have succeeded.
    """
    short = []
    for name in spec.roles[role].depends_on:
        least = max(1, spec.roles[name].size.min)
        if up.get(name, 0) < least:
            short.append(f"{name} ({up.get(name, 0)} of {least} running)")
    return f"waits for {' and '.join(short)}" if short else ""
