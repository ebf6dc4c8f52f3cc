"""Whatever happens to a job, in any order, some things always hold."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from msgspec.structs import replace

from resile.control.actions import StartNode
from resile.control.observed import MasterReport
from resile.job.exits import NodeExit, NodeExitCode
from resile.job.node import NodePhase
from resile.job.status import decode_status, encode_status
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

roles = st.fixed_dictionaries(
    {
        "min": st.integers(0, 3),
        "extra": st.integers(0, 3),
        "nodeUnit": st.sampled_from([1, 1, 2]),
        "restartPolicy": st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"]),
        "perNode": st.sampled_from([-1, 0, 1, 3]),
        "perRole": st.sampled_from([-1, 2, 5]),
        "priority": st.sampled_from([None, 5, "high", 0.5]),
    }
)


def described(drawn: dict) -> dict:
    unit = drawn["nodeUnit"]
    least = -(-drawn["min"] // unit) * unit
    most = max(1, least + drawn["extra"])
    most = -(-most // unit) * unit
    return {
        "replicas": {"min": least, "max": most},
        "nodeUnit": unit,
        "restartPolicy": drawn["restartPolicy"],
        "restartBudget": {"perNode": drawn["perNode"], "perRole": drawn["perRole"]},
        "priority": drawn["priority"],
        "resources": {"requests": {"memory": "16Gi"}},
    }


class JobHistory(RuleBasedStateMachine):
    """Random events at a job; the simulated platform itself refuses reused ids and rival nodes."""

    @initialize(
        worker=roles,
        ps=st.none() | roles,
        waits=st.booleans(),
        room=st.integers(1, 8),
        backoff_limit=st.sampled_from([None, None, 4]),
        clean=st.sampled_from(["Running", "All", "None"]),
    )
    def start(self, worker, ps, waits, room, backoff_limit, clean) -> None:
        described_roles = {"worker": described(worker)}
        if ps is not None:
            described_roles["ps"] = described(ps)
            if waits:
                described_roles["worker"]["dependsOn"] = ["ps"]
        spec = {"cleanPolicy": clean}
        if backoff_limit is not None:
            spec["backoffLimit"] = backoff_limit
        self.sim = SimulatedPlatform(job(described_roles, **spec), room=room)
        self.spent = 0
        self.spent_by_rank: dict[tuple[str, int], int] = {}

    # --- what may happen --------------------------------------------------------------------

    @rule(pick=st.randoms(use_true_random=False), how=st.sampled_from(EXITS))
    def a_node_ends(self, pick, how) -> None:
        if self.sim.live():
            self.sim.end(pick.choice(self.sim.live()).node, how)

    @rule(pick=st.randoms(use_true_random=False))
    def a_node_vanishes(self, pick) -> None:
        if self.sim.nodes:
            self.sim.vanish(pick.choice(list(self.sim.nodes.values())).node)

    @rule()
    def nodes_that_were_told_to_stop_do(self) -> None:
        self.sim.let_stop()

    @rule(seconds=st.sampled_from([0.1, 1, 5, 11, 61, 400]))
    def time_passes(self, seconds) -> None:
        self.sim.wait(seconds)

    @rule(room=st.integers(0, 8))
    def the_room_changes(self, room) -> None:
        self.sim.room = room
        self.sim.place()

    @rule(role=st.sampled_from(["worker", "ps"]), size=st.integers(-1, 9))
    def somebody_scales(self, role, size) -> None:
        if role in self.sim.job.spec.roles:
            self.sim.wanted[role] = size

    @rule(suspend=st.booleans())
    def somebody_suspends_or_resumes(self, suspend) -> None:
        spec = replace(self.sim.job.spec, suspend=suspend)
        self.sim.job = replace(self.sim.job, spec=spec)

    @precondition(lambda self: self.sim.master is None)
    @rule(succeeded=st.booleans(), rarely=st.integers(0, 9))
    def the_master_speaks(self, succeeded, rarely) -> None:
        if rarely == 0:
            self.sim.master = MasterReport(succeeded=succeeded, reason="so", at=self.sim.now)

    @rule(rarely=st.integers(0, 19))
    def somebody_deletes_the_job(self, rarely) -> None:
        if rarely == 0:
            self.sim.deleting = True

    @rule()
    def the_controller_looks(self) -> None:
        finished, suspended = self.sim.status.finished, self.sim.job.spec.suspend
        decision = self.sim.look()
        starts = [action for action in decision.actions if isinstance(action, StartNode)]
        assert all(action.reason for action in decision.actions)
        assert all(note.sentence and note.reason for note in decision.notes)
        if finished or suspended or self.sim.deleting or self.sim.master:
            assert not starts
        if decision.requeue_after is not None:
            assert decision.requeue_after.total_seconds() > 0

    @rule()
    def the_controller_looks_and_dies_before_it_acts(self) -> None:
        self.sim.look(carry_out=False)

    @rule()
    def a_second_look_at_the_same_report_changes_nothing(self) -> None:
        first = self.sim.look(carry_out=False)
        again = self.sim.look(carry_out=False)
        assert again.actions == ()
        assert again.notes == ()
        assert again.status == first.status
        for action in first.actions:
            self.sim.carry_out(action)

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def a_status_survives_json(self) -> None:
        assert decode_status(encode_status(self.sim.status)) == self.sim.status

    @invariant()
    def sizes_are_kept(self) -> None:
        status = self.sim.status
        if self.sim.deleting:
            return
        for name, role in status.roles.items():
            size = self.sim.job.spec.roles[name].size
            assert size.min <= role.wanted <= size.max
            at_work = [
                rank
                for rank in status.nodes
                if rank.role == name
                and rank.phase in (NodePhase.RUNNING, NodePhase.PENDING, NodePhase.WAITING)
            ]
            if not status.finished:
                assert len(at_work) <= role.wanted

    @invariant()
    def a_rank_is_listed_once(self) -> None:
        slots = [(rank.role, rank.rank) for rank in self.sim.status.nodes]
        assert len(slots) == len(set(slots))

    @invariant()
    def budgets_only_grow_and_are_not_exceeded(self) -> None:
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
        if spec.backoff_limit is not None:
            assert status.spent <= spec.backoff_limit


JobHistory.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestJobHistory = JobHistory.TestCase
