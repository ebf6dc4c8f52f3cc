"""Suspect machines: those that may be at fault for the end of a job's nodes.

A relaunched node avoids them for a while, as long as there are other machines. The list of machines
to avoid is fixed for a node, so one that finds no room because of it would be pending for ever:
at ``stop_avoiding_at`` it is replaced by one that may run anywhere. Only the latest few are
kept: trouble on every machine is not the fault of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from resile.control.observed import UNSCHEDULABLE
from resile.control.policy import Policy
from resile.job.exits import ExitCause
from resile.job.node import NodePhase
from resile.job.status import HostTrouble, NodeStatus

__all__ = ["hosts_to_avoid", "stop_avoiding_at", "still_suspect", "with_suspect"]

_MACHINES_FAULT = frozenset(
    {ExitCause.NODE_LOST, ExitCause.BROKEN_NODE, ExitCause.STRAGGLER, ExitCause.NO_PROGRESS}
)
"""Other causes, such as an error of the program or too little memory, would occur anywhere."""


def with_suspect(
    known: Iterable[HostTrouble], host: str, cause: ExitCause, *, now: datetime
) -> tuple[HostTrouble, ...]:
    """The suspect machines after a node ended on ``host``."""
    known = tuple(known)
    if not host or cause not in _MACHINES_FAULT:
        return known
    others = tuple(one for one in known if one.host != host)
    return (*others, HostTrouble(host=host, cause=cause, at=now))


def still_suspect(
    known: Iterable[HostTrouble], *, now: datetime, policy: Policy
) -> tuple[HostTrouble, ...]:
    """The suspect machines that are still avoided at ``now``."""
    fresh = [one for one in known if now < one.at + policy.host_suspect_for]
    return tuple(fresh[max(0, len(fresh) - policy.max_avoided_hosts) :])


def hosts_to_avoid(known: Iterable[HostTrouble]) -> tuple[str, ...]:
    """The names of suspect machines."""
    return tuple(one.host for one in known)


def stop_avoiding_at(rank: NodeStatus, *, policy: Policy) -> datetime | None:
    """Return when a pending node has waited long enough for room away from the machines it avoids;
    None if it is not pending for room, or avoids none."""
    looking = rank.phase is NodePhase.PENDING and rank.reason == UNSCHEDULABLE
    if not looking or not rank.avoids or rank.asked_at is None:
        return None
    return rank.asked_at + policy.avoid_hosts_for
