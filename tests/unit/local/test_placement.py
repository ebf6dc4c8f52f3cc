"""Which nodes start, wait or are preempted: properties for every machine and set of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from resile.local.capacity import Capacity
from resile.local.placement import Claim, Placement, place

ROOM = Capacity(Decimal(4), 8)


def claim(id: int, cpu: str = "1", memory: int = 0, *, priority: int = 0) -> Claim:
    """A node; later ids were requested later."""
    request = Capacity(Decimal(cpu), memory)
    return Claim(id=id, name=f"n{id}", priority=priority, request=request, since=id)


@dataclass(frozen=True)
class Machine:
    """The nodes on a machine."""

    running: tuple[Claim, ...] = ()
    leaving: tuple[Claim, ...] = ()
    pending: tuple[Claim, ...] = ()

    def place(self) -> Placement:
        return place(ROOM, running=self.running, leaving=self.leaving, pending=self.pending)

    def obey(self, placement: Placement) -> Machine:
        """The state right after the placement was carried out: victims still use their capacity."""
        victims = {preemption.victim for preemption in placement.preemptions}
        return Machine(
            running=(*(c for c in self.running if c not in victims), *placement.starts),
            leaving=(*self.leaving, *victims),
            pending=tuple(c for c in self.pending if c not in placement.starts),
        )

    def let_go(self) -> Machine:
        """The state once all leaving nodes have left."""
        return replace(self, leaving=())

    @property
    def free(self) -> Capacity:
        return ROOM - total(*self.running, *self.leaving)


def total(*claims: Claim) -> Capacity:
    return sum((each.request for each in claims), start=Capacity())


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any nodes that fit their machine, and any queue."""
    halves = st.integers(0, 8).map(lambda halves: f"{halves / 2}")
    shapes = st.tuples(halves, st.integers(0, 8), st.integers(-1, 2), st.sampled_from("rlp"))
    groups: dict[str, list[Claim]] = {"r": [], "l": [], "p": []}
    for id, (cpu, memory, priority, group) in enumerate(draw(st.lists(shapes, max_size=12))):
        each = claim(id, cpu, memory, priority=priority)
        if group == "p" or ROOM.holds(total(*groups["r"], *groups["l"], each)):
            groups[group].append(each)
    return Machine(tuple(groups["r"]), tuple(groups["l"]), tuple(groups["p"]))


@given(machines())
def test_the_capacity_is_never_exceeded(machine: Machine) -> None:
    after = machine.obey(machine.place())
    assert ROOM.holds(total(*after.running, *after.leaving))


@given(machines())
def test_every_node_that_does_not_start_is_told_what_it_waits_for(machine: Machine) -> None:
    placement = machine.place()
    started = {each.id for each in placement.starts}
    assert started.isdisjoint(placement.waits)
    assert started | set(placement.waits) == {each.id for each in machine.pending}
    assert all(placement.waits.values())


@given(machines())
def test_nobody_is_preempted_for_a_node_of_equal_or_lower_priority(machine: Machine) -> None:
    for preemption in machine.place().preemptions:
        assert preemption.victim.priority < preemption.by.priority
        assert preemption.victim in machine.running


@given(machines())
def test_whoever_others_were_preempted_for_has_started_once_they_have_left(
    machine: Machine,
) -> None:
    placement = machine.place()
    again = machine.obey(placement).let_go().place()
    favoured = {preemption.by for preemption in placement.preemptions}
    assert favoured <= {*placement.starts, *again.starts}


@given(machines())
def test_a_second_look_at_the_same_situation_changes_nothing(machine: Machine) -> None:
    again = machine.obey(machine.place()).place()
    assert not again.starts
    assert not again.preemptions


@given(machines())
def test_no_room_stays_free_that_somebody_waits_for(machine: Machine) -> None:
    for _ in range(len(machine.running) + len(machine.pending) + 1):
        machine = machine.obey(machine.place()).let_go()
    assert not any(machine.free.holds(each.request) for each in machine.pending)


@given(machines())
def test_free_room_is_refused_only_where_it_is_kept_for_a_more_important_node(
    machine: Machine,
) -> None:
    placement = machine.place()
    after = machine.obey(placement)
    kept = [each for each in after.pending if placement.waits[each.id].startswith("waiting for")]
    for each in after.pending:
        if each not in kept and after.free.holds(each.request):
            assert any(holder.priority >= each.priority for holder in kept)


@given(machines())
def test_nobody_overtakes_a_node_that_asks_for_no_more(machine: Machine) -> None:
    placement = machine.place()
    for started in placement.starts:
        for waiting in machine.pending:
            if waiting.id in placement.waits and started.request.holds(waiting.request):
                first = (-started.priority, started.since)
                assert first < (-waiting.priority, waiting.since)


@given(machines())
def test_victims_are_of_the_lowest_priorities_and_each_is_needed(machine: Machine) -> None:
    for alone in machine.pending:
        placement = replace(machine, pending=(alone,)).place()
        victims = [preemption.victim for preemption in placement.preemptions]
        later = ROOM - total(*machine.running)
        lower = [each for each in machine.running if each.priority < alone.priority]
        if later.holds(alone.request) or not (later + total(*lower)).holds(alone.request):
            assert not victims
            continue
        assert (later + total(*victims)).holds(alone.request)
        for victim in victims:
            others = total(*(each for each in victims if each is not victim))
            assert not (later + others).holds(alone.request)
        highest = max(victim.priority for victim in victims)
        below = total(*(each for each in lower if each.priority < highest))
        assert not (later + below).holds(alone.request)


def test_of_equals_the_youngest_is_preempted() -> None:
    running = tuple(claim(id, "2") for id in range(2))
    placement = Machine(running, pending=(claim(9, "2", priority=1),)).place()
    assert [preemption.victim.id for preemption in placement.preemptions] == [1]


def test_a_node_whose_room_does_not_help_is_spared() -> None:
    running = (claim(0, "0", 8), claim(1, "3"), claim(2, "0.5"))
    placement = Machine(running, pending=(claim(9, "0", 4, priority=1),)).place()
    assert [preemption.victim.id for preemption in placement.preemptions] == [0]


def test_what_is_missing_is_said_in_numbers() -> None:
    machine = Machine(running=(claim(0, "3.5", 2),), pending=(claim(1, "1"), claim(2, "0", 7)))
    waits = machine.place().waits
    assert waits == {1: "0.5 of 4 cpu free, 1 wanted", 2: "6 of 8 memory free, 7 wanted"}


def test_a_node_larger_than_the_machine_is_told_so() -> None:
    (said,) = Machine(pending=(claim(0, "5"),)).place().waits.values()
    assert said == "4 of 4 cpu free, 5 wanted; it can never fit; raise --capacity or request less"


def test_a_node_is_told_whose_room_it_gets() -> None:
    machine = Machine(running=(claim(0, "4"),), pending=(claim(1, "4", priority=1),))
    assert machine.place().waits == {1: "waiting for n0 to leave"}
