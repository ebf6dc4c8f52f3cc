"""Decide which nodes start, which are preempted and which wait. Pure.

Pending nodes are considered one after another, higher priority first, then the longest waiting.
Each gets the first of these that is possible:

1. It starts, if it fits into the free capacity.
2. It waits for nodes that are leaving already, if it will fit once they have left.
3. Running nodes of lower priority are preempted for it: the lowest priority first, of equals the
   newest, until it fits; those that turn out not to be needed are spared. None, if not even all of
   them would be enough.
4. It waits without blocking others: a node behind it that fits is started.

Capacity that is being freed for a node (2 and 3) is reserved for it; a node behind it that took
some of it meanwhile would only have to be preempted next. So two amounts are tracked: what is free
now, and what will be free and is not reserved. A node starts if it fits into both. One that
requests more than the whole capacity waits as well: the user can change the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resile.local.capacity import Capacity, cores_text, memory_text

__all__ = ["Claim", "Placement", "Preemption", "place"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A node that uses or requests a part of the capacity."""

    id: int
    name: str
    priority: int
    request: Capacity
    since: int
    """A sequence number in the order of the requests."""


@dataclass(frozen=True)
class Preemption:
    """A running node to preempt, and the node that takes its place."""

    victim: Claim
    by: Claim


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The decisions on all pending nodes."""

    starts: tuple[Claim, ...]
    preemptions: tuple[Preemption, ...]
    waits: Mapping[int, str]
    """The reason why each node that is not started waits, by node id."""


def place(
    capacity: Capacity,
    *,
    running: Sequence[Claim],
    leaving: Sequence[Claim],
    pending: Sequence[Claim],
) -> Placement:
    """Decide on all ``pending`` nodes. ``leaving`` ones are being stopped but still run."""
    free = capacity - _total(running) - _total(leaving)
    later = free + _total(leaving)
    victims = sorted(running, key=lambda claim: (claim.priority, -claim.since))
    leavers = [claim.name for claim in leaving]
    starts: list[Claim] = []
    preemptions: list[Preemption] = []
    waiting: list[tuple[Claim, str]] = []
    for claim in sorted(pending, key=lambda claim: (-claim.priority, claim.since)):
        chosen = choose_victims(claim, victims, later=later)
        if chosen is None:
            waiting.append((claim, ""))
            continue
        victims = [victim for victim in victims if victim not in chosen]
        preemptions += [Preemption(victim, claim) for victim in chosen]
        leavers += [victim.name for victim in chosen]
        later = later + _total(chosen) - claim.request
        if free.holds(claim.request):
            starts.append(claim)
            free = free - claim.request
        else:
            waiting.append((claim, f"waiting for {' and '.join(leavers)} to leave"))
    waits = {
        claim.id: said or _what_is_missing(claim.request, free=free, capacity=capacity)
        for claim, said in waiting
    }
    return Placement(starts=tuple(starts), preemptions=tuple(preemptions), waits=waits)


def choose_victims(
    claim: Claim, running: Sequence[Claim], *, later: Capacity
) -> list[Claim] | None:
    """Return the nodes to preempt for ``claim``: none if ``later`` is enough, None if preempting
    all would not be.

    ``running`` is in the order in which nodes are preempted.
    """
    chosen: list[Claim] = []
    for victim in running:
        if (later + _total(chosen)).holds(claim.request) or victim.priority >= claim.priority:
            break
        chosen.append(victim)
    if not (later + _total(chosen)).holds(claim.request):
        return None
    for victim in reversed(chosen):
        others = [other for other in chosen if other is not victim]
        if (later + _total(others)).holds(claim.request):
            chosen = others
    return chosen


def _total(claims: Sequence[Claim]) -> Capacity:
    return sum((claim.request for claim in claims), start=Capacity())


def _what_is_missing(request: Capacity, *, free: Capacity, capacity: Capacity) -> str:
    lacks = []
    if request.cpu > free.cpu:
        shown = (cores_text(amount) for amount in (free.cpu, capacity.cpu, request.cpu))
        lacks.append("{} of {} cpu free, {} wanted".format(*shown))
    if request.memory > free.memory:
        sizes = (memory_text(amount) for amount in (free.memory, capacity.memory, request.memory))
        lacks.append("{} of {} memory free, {} wanted".format(*sizes))
    if not capacity.holds(request):
        lacks.append("it can never fit; raise --capacity or request less")
    return "; ".join(lacks) or "the free capacity is reserved for a node of higher priority"
