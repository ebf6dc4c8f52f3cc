"""Which nodes start, which are preempted and which wait: a pure function.

Nodes that wait are taken one after another, higher priority first, then the longest waiting. Each
gets the first of these that is possible:

1. It starts, if it fits into the free room.
2. It waits for nodes that are leaving already, if it will fit once they have left.
3. Running nodes of lower priority are preempted for it: those of the lowest priorities that are
   enough, and of these as few as possible. None, if not even all of them would be enough.
4. It waits, and holds nobody up: one behind it that fits is started.

Room that is being made for a node (2 and 3) is kept for it; a node of lower priority that took it
in the meantime would only have to be preempted next. Where the node can never be held, because it
asks for more than the whole capacity, it still waits: the capacity is the user's to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resile.platform.local.capacity import Capacity, cores_text, memory_text

__all__ = ["Claim", "Placement", "Preemption", "place"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A node that has, or wants, a part of the capacity."""

    id: int
    name: str
    priority: int
    request: Capacity
    since: int
    """Grows from node to node in the order in which they were asked for."""


@dataclass(frozen=True)
class Preemption:
    """A running node that has to go, and the one it makes room for."""

    victim: Claim
    by: Claim


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What to do now."""

    starts: tuple[Claim, ...]
    preemptions: tuple[Preemption, ...]
    waits: Mapping[int, str]
    """By node id: what is missing for each node that is not started, as a sentence."""


def place(
    capacity: Capacity,
    *,
    running: Sequence[Claim],
    leaving: Sequence[Claim],
    pending: Sequence[Claim],
) -> Placement:
    """Decide on all ``pending`` nodes. ``leaving`` ones were told to end and still hold room."""
    free = capacity - _total(running) - _total(leaving)
    later = free + _total(leaving)
    victims = sorted(running, key=lambda claim: (claim.priority, -claim.since))
    leavers = [claim.name for claim in leaving]
    starts: list[Claim] = []
    preemptions: list[Preemption] = []
    waiting: list[tuple[Claim, str]] = []
    for claim in sorted(pending, key=lambda claim: (-claim.priority, claim.since)):
        if free.holds(claim.request) and later.holds(claim.request):
            starts.append(claim)
            free, later = free - claim.request, later - claim.request
            continue
        chosen = choose_victims(claim, victims, later=later)
        if chosen is None:
            waiting.append((claim, ""))
            continue
        victims = [victim for victim in victims if victim not in chosen]
        preemptions += [Preemption(victim, claim) for victim in chosen]
        leavers += [victim.name for victim in chosen]
        later = later + _total(chosen) - claim.request
        waiting.append((claim, f"waits for the room of {' and '.join(leavers)}"))
    waits = {
        claim.id: said or _what_is_missing(claim.request, free=free, capacity=capacity)
        for claim, said in waiting
    }
    return Placement(starts=tuple(starts), preemptions=tuple(preemptions), waits=waits)


def choose_victims(
    claim: Claim, running: Sequence[Claim], *, later: Capacity
) -> tuple[Claim, ...] | None:
    """Whom to preempt for ``claim``: nobody if ``later`` is enough, None if all were too few.

    ``running`` is in the order in which nodes are preempted.
    """
    if later.holds(claim.request):
        return ()
    lower = [victim for victim in running if victim.priority < claim.priority]
    for level in sorted({victim.priority for victim in lower}):
        eligible = [victim for victim in lower if victim.priority <= level]
        if (later + _total(eligible)).holds(claim.request):
            return _fewest(eligible, later=later, wanted=claim.request)
    return None


def _fewest(eligible: Sequence[Claim], *, later: Capacity, wanted: Capacity) -> tuple[Claim, ...]:
    """The smallest selection that makes enough room; all of ``eligible`` together are enough.

    Selections grow by one node at a time. Of those that free the same, or less with no fewer
    nodes, only the first is kept; nodes of a role all ask for the same, so few are left.
    """
    selections: list[tuple[tuple[Claim, ...], Capacity]] = [((), later)]
    for victim in eligible:
        grown = [
            ((*chosen, victim), _up_to(wanted, room + victim.request))
            for chosen, room in selections
        ]
        selections = _undominated(selections + grown)
    return min(
        (chosen for chosen, room in selections if room.holds(wanted)),
        key=lambda chosen: len(chosen),
    )


def _undominated(
    selections: Sequence[tuple[tuple[Claim, ...], Capacity]],
) -> list[tuple[tuple[Claim, ...], Capacity]]:
    kept: list[tuple[tuple[Claim, ...], Capacity]] = []
    for chosen, room in sorted(selections, key=lambda selection: len(selection[0])):
        if not any(other.holds(room) for _, other in kept):
            kept.append((chosen, room))
    return kept


def _up_to(most: Capacity, room: Capacity) -> Capacity:
    return Capacity(min(most.cpu, room.cpu), min(most.memory, room.memory))


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
        lacks.append("it never fits; raise --capacity or ask for less")
    return "; ".join(lacks) or "the free room is kept for a node of higher priority"
