"""Which nodes start, which are preempted and which wait: a pure function.

Nodes that wait are taken one after another, higher priority first, then the longest waiting. Each
gets the first of these that is possible:

1. It starts, if it fits into the free room.
2. It waits for nodes that are leaving already, if it will fit once they have left.
3. Running nodes of lower priority are preempted for it: those of the lowest priorities that are
   enough, and of these as few as possible. None, if not even all of them would be enough.
4. It waits, and holds nobody up: one behind it that fits is started.

Room that is being made for a node (2 and 3) is kept for it; a node behind it that took some of it
in the meantime would only have to be preempted next. So two things are counted: what is free now,
and what will be free and is not promised to anybody. A node starts if it fits into both. One that
asks for more than the whole capacity waits as well: the capacity is the user's to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from resile.platform.local.capacity import Capacity, cores_text, memory_text

__all__ = ["Claim", "Placement", "Preemption", "place"]

MOST_SELECTIONS = 64
"""How many selections of equally many nodes are compared when some have to be preempted. The
smallest is found for certain up to 8 nodes that all differ, and for any number of a few kinds; the
bound keeps the choice among 40 nodes that all differ at a quarter of a second."""


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

    Selections grow by one node at a time; for each number of nodes, those that make the same room
    are one. Nodes of a role all ask for the same, so few are left. Should there be very many, the
    most promising are followed up, and the selection may be larger than it has to be.
    """
    by_count: list[dict[Capacity, tuple[Claim, ...]]] = [{_up_to(wanted, later): ()}]
    for victim in eligible:
        by_count.append({})
        for fewer, more in reversed(list(pairwise(by_count))):
            for room, chosen in fewer.items():
                more.setdefault(_up_to(wanted, room + victim.request), (*chosen, victim))
        enough = next((n for n, rooms in enumerate(by_count) if wanted in rooms), len(by_count))
        by_count = [_most_promising(rooms, wanted) for rooms in by_count[: enough + 1]]
    return by_count[-1][wanted]


def _most_promising(
    rooms: dict[Capacity, tuple[Claim, ...]], wanted: Capacity
) -> dict[Capacity, tuple[Claim, ...]]:
    if len(rooms) <= MOST_SELECTIONS:
        return rooms

    def filled(room: Capacity) -> float:
        return float(room.cpu / (wanted.cpu or 1)) + room.memory / (wanted.memory or 1)

    return {room: rooms[room] for room in nlargest(MOST_SELECTIONS, rooms, key=filled)}


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
