"""Sessions of several nodes and the real membership of a master, without any I/O between them.

Whatever happened before: a master that lost its state recovers from the sessions' Hellos the round
that they all hold and continues it, and otherwise brings all of them into a new one.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from resile.job.elasticity import Elasticity
from resile.master.membership import Membership
from resile.master.records import JOB_KEY, JobRecord, RoundPhase
from resile.master.state import GroupState
from resile.wire.instructions import (
    Instruction,
    PrepareRound,
    Rejoin,
    RepeatReady,
)
from resile.wire.messages import FromAgent, FromMaster, NodeInfo, Ready, StoreAddress, WorkersFailed
from resile.wire.session import NodeSession
from tests.unit.wire.sessions import FAILURE

TERMS = Elasticity(min_nodes=1, max_nodes=3, max_restarts=100_000, join_timeout=1e8)
NODES = 3
nodes = st.integers(0, NODES - 1)


class Peers(RuleBasedStateMachine):
    """A job of three nodes. Time advances only in :meth:`let_time_pass`."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.sessions = [
            NodeSession(
                "j",
                NodeInfo(name=f"n{number}", host="h", address="a", nproc=1),
                elasticity=TERMS,
            )
            for number in range(NODES)
        ]
        self.connected: dict[int, NodeSession] = {}
        """By the number that the master gave."""
        self.membership = _new_master()
        self.come_back()

    # --- what happens -----------------------------------------------------------------------

    @rule(node=nodes)
    def fail(self, node: int) -> None:
        session = self.sessions[node]
        self._hear(session, session.failed((FAILURE,), now=self.now))

    @rule(node=nodes)
    def stop_alone(self, node: int) -> None:
        """A node without a connection to any other stops its workers."""
        if self.sessions[node].idle():
            self._cut(self.sessions[node])

    @rule(node=nodes)
    def lose_connection(self, node: int) -> None:
        self._cut(self.sessions[node])

    @rule()
    def come_back(self) -> None:
        """All disconnected nodes send Hello, until they are in."""
        for _ in range(4):
            for session in self.sessions:
                if session not in self.connected.values():
                    self._greet(session)
            self._tick()

    @rule(seconds=st.sampled_from([0.01, 0.3, 1.0, 6.0]))
    def let_time_pass(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            for session in self.connected.values():
                self.membership.reports.renew(session.fence, None, now=self.now)
            deadline = self.membership.next_deadline(self.now)
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self._tick()
        self.now = end
        self._tick()

    @rule()
    def lose_memory(self) -> None:
        """Replace the master by one with an empty store."""
        self.connected.clear()
        self.membership = _new_master()

    @precondition(lambda self: all(session.runs for session in self.sessions))
    @rule()
    def lose_memory_while_all_run(self) -> None:
        """No node notices, whatever the sessions' states."""
        together = len({session.fence.round for session in self.sessions}) == 1
        before = [session.fence for session in self.sessions]
        self.lose_memory()
        self.come_back()
        if together:
            assert [session.fence for session in self.sessions] == before
            assert all(session.runs for session in self.sessions)
            assert self.membership.round.phase is RoundPhase.RUNNING

    # --- what has to hold -------------------------------------------------------------------

    @invariant()
    def whoever_the_master_counts_on_runs(self) -> None:
        round = self.membership.round
        if round.phase is not RoundPhase.RUNNING:
            return
        for node in round.members:
            session = self.connected.get(node)
            if session is not None and not session.runs:
                raise AssertionError(f"node {node} is {session.state} in round {round.number}")

    @invariant()
    def no_older_round_follows_a_newer_one(self) -> None:
        newest = max(session.newest_round for session in self.sessions)
        if self.membership.round.phase is RoundPhase.RUNNING and len(self.connected) == NODES:
            assert self.membership.round.number >= newest

    def teardown(self) -> None:
        """In the end all of them come back, and train together."""
        if not hasattr(self, "sessions"):
            return
        for _ in range(10):
            self.come_back()
            self.let_time_pass(6.0)
        assert self.membership.round.phase is RoundPhase.RUNNING
        assert len(self.membership.round.members) == NODES
        number = self.membership.round.number
        assert all(s.runs and s.fence.round == number for s in self.sessions)

    # --- the wire ---------------------------------------------------------------------------

    def _greet(self, session: NodeSession) -> None:
        answer = self.membership.hello(session.hello(now=self.now), now=self.now)
        if isinstance(answer, int):
            self.connected[answer] = session
        else:
            self._deliver(session, answer)
        self._settle()

    def _cut(self, session: NodeSession) -> None:
        for node, other in list(self.connected.items()):
            if other is session:
                del self.connected[node]
                self.membership.disconnected(node, now=self.now)
        self._settle()

    def _tick(self) -> None:
        self.membership.tick(self.now)
        self._settle()

    def _settle(self) -> None:
        while sends := self.membership.pending_effects().sends:
            for address, message in sends:
                if address.node in self.connected:
                    self._deliver(self.connected[address.node], message)

    def _deliver(self, session: NodeSession, message: FromMaster) -> None:
        self._carry_out(session, session.obey(message))

    def _carry_out(self, session: NodeSession, instruction: Instruction | None) -> None:
        match instruction:
            case PrepareRound(round=number, host_store=host):
                store = StoreAddress("a", 1000 + number) if host else None
                self._hear(session, session.ready(number, store))
            case RepeatReady(ready=ready):
                self._hear(session, ready)
            case Rejoin():
                gone = [node for node, other in self.connected.items() if other is session]
                for node in gone:
                    del self.connected[node]

    def _hear(self, session: NodeSession, message: FromAgent | None) -> None:
        """Deliver a node's message; it is lost without a connection."""
        if session in self.connected.values():
            match message:
                case Ready(fence=fence, store=store):
                    self.membership.reports.ready(fence, store, now=self.now)
                case WorkersFailed(fence=fence, failures=failures):
                    self.membership.reports.failed(fence, failures, now=self.now)
        self._settle()


def _new_master() -> Membership:
    job = JobRecord(job="j", elasticity=TERMS)
    state = GroupState(job)
    state.effects.put(JOB_KEY, job)
    return Membership(state, ends_with_job=True)


TestPeers = Peers.TestCase
TestPeers.settings = settings(max_examples=100, stateful_step_count=40)
