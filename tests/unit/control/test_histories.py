"""Invariants that hold whatever happens to a job, in any order.

A history is a list of (event, number) pairs, applied to a simulated platform that itself rejects
ids used twice and two nodes on one rank. After every event the controller may or may not reconcile,
and may die between deciding and acting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from resile.control.actions import Decision, StartNode
from resile.control.observed import GroupReport
from resile.job.compact_status import compact
from resile.job.exits import NodeExit, NodeExitCode
from resile.job.node import NodePhase
from resile.job.spec.job import ElasticJob
from tests.statuses import decode_status, encode_status
from tests.unit.control.builders import job
from tests.unit.control.simulation import SimulatedPlatform

EXITS = [
    NodeExit(code=0),
    NodeExit(code=1),
    NodeExit(code=3),
    NodeExit(code=127),
    NodeExit(signal=9),
    NodeExit(code=137, oom=True),
    NodeExit(code=143, reason="Preempted"),
    NodeExit(reason="NodeLost"),
    NodeExit(reason="Evicted"),
    NodeExit(reason="NeverStarted"),
    *(NodeExit(code=code) for code in NodeExitCode),
    NodeExit(),
]
ACTIVE_PHASES = (NodePhase.RUNNING, NodePhase.PENDING, NodePhase.WAITING)


class Player:
    """Applies events, and checks the invariants after each."""

    def __init__(self, described: ElasticJob, *, room: int, machines: int) -> None:
        self.sim = SimulatedPlatform(described, room=room, machines=machines)
        self.spent = 0
        self.spent_by_rank: dict[tuple[str, int], int] = {}

    # --- what may happen --------------------------------------------------------------------

    def a_node_ends(self, n: int) -> None:
        live = self.sim.live()
        if live:
            self.sim.end(live[n % len(live)].node, EXITS[n // 7 % len(EXITS)])

    def a_node_ends_and_lingers(self, n: int) -> None:
        running = [found for found in self.sim.live() if found.phase is NodePhase.RUNNING]
        if running:
            end = EXITS[n // 7 % len(EXITS)]
            self.sim.end(running[n % len(running)].node, end, lingers=True)

    def a_machine_is_lost(self, n: int) -> None:
        host = self.sim.machines[n % len(self.sim.machines)]
        for found in self.sim.live():
            if found.host == host:
                self.sim.end(found.node, NodeExit(reason="NodeLost"))

    def a_node_vanishes(self, n: int) -> None:
        nodes = list(self.sim.nodes.values())
        if nodes:
            self.sim.vanish(nodes[n % len(nodes)].node)

    def stopping_nodes_stop(self, _: int) -> None:
        self.sim.let_stop()

    def time_passes(self, n: int) -> None:
        self.sim.wait([0.1, 1, 5, 11, 61, 400][n % 6])

    def the_room_changes(self, n: int) -> None:
        self.sim.room = n % 9
        self.sim.place()

    def somebody_scales(self, n: int) -> None:
        names = list(self.sim.job.spec.roles)
        self.sim.wanted[names[n % len(names)]] = n // 2 % 11 - 1

    def somebody_suspends_or_resumes(self, n: int) -> None:
        spec = replace(self.sim.job.spec, suspend=n % 2 == 0)
        self.sim.job = replace(self.sim.job, spec=spec)

    def the_master_speaks(self, n: int) -> None:
        if self.sim.master is None:
            self.sim.master = GroupReport(succeeded=n % 2 == 0, reason="so", at=self.sim.now)

    def somebody_deletes_the_job(self, _: int) -> None:
        self.sim.deleting = True

    def the_controller_looks(self, _: int) -> None:
        over = self.sim.status.finished or self.sim.deleting or self.sim.master is not None
        decision = self.sim.look()
        if over or self.sim.job.spec.suspend:
            assert not [action for action in decision.actions if isinstance(action, StartNode)]
        self._check_decision(decision)

    def the_controller_dies_before_it_acts(self, _: int) -> None:
        self._check_decision(self.sim.look(carry_out=False))

    def a_second_look_changes_nothing(self, _: int) -> None:
        first = self.sim.look(carry_out=False)
        again = self.sim.look(carry_out=False)
        assert again.actions == ()
        assert again.notes == ()
        assert compact(again.status) == compact(first.status)
        for action in first.actions:
            self.sim.carry_out(action)

    # --- what always holds ------------------------------------------------------------------

    def _check_decision(self, decision: Decision) -> None:
        assert all(action.reason for action in decision.actions)
        assert all(note.sentence and note.reason for note in decision.notes)
        assert decision.requeue_after is None or decision.requeue_after.total_seconds() > 0

    def check(self) -> None:
        status = self.sim.status
        assert decode_status(encode_status(status)) == status
        slots = [(rank.role, rank.rank) for rank in status.nodes]
        assert len(slots) == len(set(slots))
        self._check_sizes()
        self._check_budgets()

    def _check_sizes(self) -> None:
        status = self.sim.status
        if self.sim.deleting or status.finished:
            return
        for name, role in status.roles.items():
            size = self.sim.job.spec.roles[name].size
            assert size.min <= role.wanted <= size.max
            ranks = [rank for rank in status.nodes if rank.role == name]
            assert len([rank for rank in ranks if rank.phase in ACTIVE_PHASES]) <= role.wanted

    def _check_budgets(self) -> None:
        status, spec = self.sim.status, self.sim.job.spec
        assert status.spent >= self.spent
        assert status.spent == sum(role.spent for role in status.roles.values())
        self.spent = status.spent
        for rank in status.nodes:
            slot = (rank.role, rank.rank)
            assert rank.spent >= self.spent_by_rank.get(slot, 0)
            self.spent_by_rank[slot] = rank.spent
            budget = spec.roles[rank.role].restart_budget
            assert budget.per_node == -1 or rank.spent <= budget.per_node
        for name, role in status.roles.items():
            budget = spec.roles[name].restart_budget
            assert budget.per_role == -1 or role.spent <= budget.per_role
        assert spec.backoff_limit is None or status.spent <= spec.backoff_limit


EVENTS: dict[str, Callable[[Player, int], None]] = {
    name: method
    for name, method in vars(Player).items()
    if callable(method) and not name.startswith("_") and name != "check"
}
OFTEN = [
    *["the_controller_looks"] * 6,
    *["a_node_ends"] * 5,
    *["a_second_look_changes_nothing"] * 4,
    *["somebody_suspends_or_resumes", "somebody_scales", "stopping_nodes_stop"] * 2,
]
MISHAPS = [
    *["the_controller_looks"] * 4,
    *["the_controller_dies_before_it_acts", "a_second_look_changes_nothing"],
    *["a_machine_is_lost", "a_node_vanishes", "the_room_changes", "stopping_nodes_stop"],
    "time_passes",
]
"""Events that end no job, and cost no budget."""


@st.composite
def roles(draw: st.DrawFn) -> dict[str, Any]:
    unit = draw(st.sampled_from([1, 1, 2]))
    least = draw(st.integers(0, 2)) * unit
    return {
        "replicas": {"min": least, "max": max(unit, least + unit * draw(st.integers(0, 2)))},
        "nodeUnit": unit,
        "restartPolicy": draw(st.sampled_from(["OnFailure", "Never", "Always", "ExitCode"])),
        "restartBudget": {
            "perNode": draw(st.sampled_from([3, -1, 0, 1])),
            "perRole": draw(st.sampled_from([-1, 2, 5])),
        },
        "priority": draw(st.sampled_from([None, 5, "high", 0.5])),
        "resources": {"requests": {"memory": "16Gi"}},
    }


@st.composite
def jobs(draw: st.DrawFn) -> ElasticJob:
    described = {"worker": draw(roles())}
    if draw(st.booleans()):
        described["ps"] = draw(roles())
        if draw(st.booleans()):
            described["worker"]["dependsOn"] = ["ps"]
    return job(
        described,
        backoffLimit=draw(st.sampled_from([None, None, 4])),
        cleanPodPolicy=draw(st.sampled_from(["Running", "All", "None"])),
        activeDeadlineSeconds=draw(st.sampled_from([None, None, 100])),
        ttlSecondsAfterFinished=draw(st.sampled_from([None, 10])),
    )


histories = st.lists(
    st.tuples(st.sampled_from([*OFTEN, *EVENTS]), st.integers(0, 999)), min_size=10, max_size=60
)


@settings(max_examples=300, deadline=None)
@given(described=jobs(), room=st.integers(1, 8), machines=st.integers(1, 4), history=histories)
def test_no_history_breaks_what_always_holds(
    described: ElasticJob, room: int, machines: int, history: list[tuple[str, int]]
) -> None:
    player = Player(described, room=room, machines=machines)
    for event, number in history:
        EVENTS[event](player, number)
        player.check()


@settings(max_examples=100, deadline=None)
@given(described=jobs(), machines=st.integers(1, 3), history=histories)
def test_after_any_history_a_job_left_in_peace_comes_to_rest(
    described: ElasticJob, machines: int, history: list[tuple[str, int]]
) -> None:
    """With capacity for all nodes, and no more faults, the job runs or is over, whatever failures
    its machines had."""
    sim = left_in_peace(described, machines, history)
    left = [found for found in sim.nodes.values() if found.holds_room]
    if sim.status.finished or sim.deleting or sim.job.spec.suspend:
        keep = sim.status.finished and sim.job.spec.clean_pod_policy.value == "None"
        expires = sim.job.spec.ttl_seconds_after_finished is not None
        assert not left or (keep and not expires and not sim.deleting)
    else:
        assert not [found for found in left if found.lingers]
        waiting = [rank for rank in sim.status.nodes if rank.phase in ACTIVE_PHASES[1:]]
        assert all(rank.reason == "WaitsForRole" for rank in waiting)


@settings(max_examples=100, deadline=None)
@given(
    machines=st.integers(1, 3),
    history=st.lists(st.tuples(st.sampled_from(MISHAPS), st.integers(0, 999)), max_size=60),
)
def test_after_any_mishaps_a_job_that_nobody_ended_has_all_its_nodes_again(
    machines: int, history: list[tuple[str, int]]
) -> None:
    described = job({"worker": {"replicas": 3, "dependsOn": ["ps"]}, "ps": {}})
    sim = left_in_peace(described, machines, history)
    assert [rank.phase for rank in sim.status.nodes] == [NodePhase.RUNNING] * 4
    assert sim.status.spent == 0


def left_in_peace(
    described: ElasticJob, machines: int, history: list[tuple[str, int]]
) -> SimulatedPlatform:
    """The platform some time after a history, with capacity for all the job's nodes."""
    player = Player(described, room=100, machines=machines)
    for event, number in history:
        EVENTS[event](player, number)
    sim = player.sim
    sim.room = 100
    for _ in range(12):
        sim.wait(301)
        sim.let_stop()
        sim.place()
        sim.look()
    assert not sim.look().actions
    return sim
