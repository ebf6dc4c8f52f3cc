"""Ten thousand histories: whatever happens in whatever order, the promises hold and it recovers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from resile.wire.messages import LocalState
from tests.unit.master.model import Model, PretendAgent


class Histories(RuleBasedStateMachine):
    """Joins, cuts, kills, failures, crashes of the master, its store's loss and time, in any order.

    ``Model.check`` asserts the promises at every message; at the end all agents that live come
    back, and the job has to train with as many of them as it may use.
    """

    @initialize(low=st.integers(1, 3), more=st.integers(0, 3), unit=st.integers(1, 2))
    def begin(self, low: int, more: int, unit: int) -> None:
        self.model = Model(
            min_nodes=low,
            max_nodes=max(low + more, unit),
            node_unit=unit,
            max_restarts=1000,
            join_timeout=1e9,
        )

    def pick(self, index: int) -> PretendAgent:
        agents = list(self.model.agents.values())
        return agents[index % len(agents)]

    @precondition(lambda self: len(self.model.agents) < 8)
    @rule(
        nproc=st.integers(1, 3),
        rank=st.none() | st.integers(0, 3),
        warm=st.booleans(),
        saves=st.booleans(),
        slow=st.booleans(),
    )
    def join(self, nproc: int, rank: int | None, warm: bool, saves: bool, slow: bool) -> None:
        self.model.join(nproc=nproc, rank=rank, warm=warm, saves=saves, slow=slow)

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def warm_up(self, index: int) -> None:
        agent = self.pick(index)
        if agent.connected and agent.node is not None:
            self.model.warm_up(agent)

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def cut(self, index: int) -> None:
        self.model.cut(self.pick(index))

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def come_back(self, index: int) -> None:
        agent = self.pick(index)
        if not agent.connected:
            self.model.connect(agent)

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def kill(self, index: int) -> None:
        self.model.kill(self.pick(index))

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def leave(self, index: int) -> None:
        agent = self.pick(index)
        if agent.connected and agent.node is not None:
            self.model.leave(agent)

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7))
    def ask_to_leave(self, index: int) -> None:
        agent = self.pick(index)
        if agent.connected and agent.node is not None:
            self.model.ask_to_leave(agent)

    @precondition(lambda self: self.model.running)
    @rule(index=st.integers(0, 7))
    def fail(self, index: int) -> None:
        names = sorted(self.model.running)
        agent = self.model.agents[names[index % len(names)]]
        if agent.connected:
            self.model.fail(agent)
        else:
            agent.state = LocalState.FAILED

    @rule(seconds=st.sampled_from([0.01, 0.06, 0.3, 1.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.model.advance(seconds)

    @rule(answering=st.booleans())
    def slowness(self, answering: bool) -> None:
        self.model.answering = answering
        if answering:
            self.answer_all()

    def answer_all(self) -> None:
        for agent in self.model.agents.values():
            if agent.connected and agent.round and agent.state is LocalState.IDLE:
                self.model.answer_prepare(agent)
        self.model.settle()

    @precondition(lambda self: self.model.kept)
    @rule()
    def crash_master(self) -> None:
        self.model.crash_master()

    @precondition(lambda self: self.model.running)
    @rule(index=st.integers(0, 7))
    def crash_master_before_it_sends(self, index: int) -> None:
        self.model.losing = True
        self.fail(index)
        self.model.crash_master()

    @rule(told=st.booleans())
    def lose_memory(self, told: bool) -> None:
        self.model.lose_memory(after_round=self.model.membership.round.number if told else 0)

    @precondition(lambda self: self.model.agents)
    @rule(index=st.integers(0, 7), saves=st.booleans(), stubborn=st.booleans())
    def replace(self, index: int, saves: bool, stubborn: bool) -> None:
        old = self.pick(index)
        old.stubborn = stubborn
        generation = (old.generation or 0) + 1
        self.model.join(rank=old.rank or 0, generation=generation, saves=saves)

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        model = self.model
        model.answering = True
        self.answer_all()
        for agent in model.agents.values():
            agent.warm = True
            if agent.connected and agent.node is not None:
                model.warm_up(agent)
        # A forgotten node is asked to wait, put out, and taken in; others may be slow to save.
        for _ in range(10):
            model.reconnect_all()
            model.advance(7)
        if model.membership.job.outcome:
            return
        expected = model.elasticity.world_of(len(model.agents))
        assert len(model.running) == expected, (expected, model.membership.journal.events)


Histories.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
