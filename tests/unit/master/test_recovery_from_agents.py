"""A master that lost its state recovers its job from the agents, in any order of arrival."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.job.elasticity import ANY_ROLE
from resile.master.effects import Address
from resile.master.records import RoundPhase, RoundRecord
from resile.master.recovery import MAX_TRUSTED, SKIPPED_IDS
from resile.wire.messages import (
    Fenced,
    FromMaster,
    LocalState,
    Outcome,
    Refused,
    Welcome,
)
from tests.unit.master.model import Model, PretendAgent

LEASE = 5.0


def three() -> tuple[Model, list[PretendAgent]]:
    """A job of three nodes in its second round."""
    model = Model(min_nodes=2, max_nodes=3, lease=LEASE)
    agents = [model.join() for _ in range(3)]
    model.fail(agents[0])
    assert model.running == {"n1", "n2", "n3"}
    return model, agents


def heard(agents: list[PretendAgent]) -> list[FromMaster]:
    return [message for agent in agents for message in agent.told]


def forget_and_ask(model: Model, order: list[PretendAgent]) -> None:
    """Lose the state; these agents come, one after the other, each as often as it must."""
    model.lose_memory()
    for agent in model.agents.values():
        agent.told.clear()
    for agent in order:
        model.connect(agent)
    model.advance(0)
    for agent in order:
        if not agent.connected:
            model.connect(agent)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_running_round_is_resumed_in_any_order_of_arrival(order: tuple[int, ...]) -> None:
    model, agents = three()
    before = model.membership.round.record
    forget_and_ask(model, [agents[index] for index in order])
    after = model.membership.round.record
    assert (after.number, after.members, after.store) == (2, before.members, before.store)
    assert after.phase is RoundPhase.RUNNING
    assert model.running == {"n1", "n2", "n3"}
    assert all(isinstance(message, Refused | Welcome) for message in heard(agents))
    model.advance(60)
    assert model.membership.round.number == 2


@st.composite
def jobs(draw: st.DrawFn) -> Model:
    """A job that trains, some rounds old, with nodes of any shape and perhaps spares."""
    size = draw(st.integers(1, 5))
    model = Model(min_nodes=1, max_nodes=size, lease=LEASE, max_restarts=9, last_call=0)
    for _ in range(size + draw(st.integers(0, 2))):
        wish = draw(st.none() | st.integers(0, 9))
        model.join(nproc=draw(st.integers(1, 3)), rank=wish)
    model.advance(1)
    for _ in range(draw(st.integers(0, 3))):
        names = sorted(model.running)
        model.fail(model.agents[draw(st.sampled_from(names))])
    return model


@given(data=st.data(), model=jobs())
def test_every_complete_set_of_agents_restores_the_same_round(
    data: st.DataObject, model: Model
) -> None:
    lost, restarts = model.membership.round.record, model.membership.job.restarts
    ids = {agent.name: agent.node for agent in model.agents.values()}
    order = data.draw(st.permutations(list(model.agents.values())))
    again = data.draw(st.lists(st.sampled_from(order), max_size=3))
    running = model.running
    forget_and_ask(model, [*order, *again])
    found = model.membership.round.record
    assert (found.number, found.phase) == (lost.number, RoundPhase.RUNNING)
    assert (found.members, found.store) == (lost.members, lost.store)
    assert model.membership.job.restarts == restarts
    model.reconnect_all()
    for agent in model.agents.values():
        if agent.name in running:
            assert all(isinstance(message, Refused | Welcome) for message in agent.told)
            assert agent.node == ids[agent.name]
    model.advance(2)
    assert model.running == running
    assert model.membership.round.number == lost.number


@given(data=st.data(), model=jobs())
def test_a_missing_member_has_the_others_form_a_newer_round(
    data: st.DataObject, model: Model
) -> None:
    members = [model.by_node[Address("", node)] for node in model.membership.round.members]
    missing = data.draw(st.sampled_from(members))
    places = [agent.name for agent in members if agent is not missing]
    del model.agents[missing.name]
    newest = max((agent.seen for agent in model.agents.values()), default=0)
    restarts = model.membership.job.restarts
    model.lose_memory()
    for _ in range(3):
        model.reconnect_all()
        model.advance(LEASE)
    expected = sum(model.elasticity.world({ANY_ROLE: len(model.agents)}).values())
    assert len(model.running) == expected
    if expected:
        assert model.membership.round.number > newest
        assert model.membership.job.restarts in (0, restarts), "a lost node costs none"
        now = [model.by_node[Address("", node)].name for node in model.membership.round.members]
        assert [name for name in now if name in places] == places


def test_the_story_says_what_was_lost_and_found() -> None:
    model, agents = three()
    forget_and_ask(model, agents)
    said = "the master lost its state and resumed round 2 from what 3 agents hold"
    assert said in [event.text for event in model.membership.effects.events]


def test_members_that_do_not_come_are_waited_for_as_long_as_a_lease() -> None:
    model, agents = three()
    del model.agents["n3"]
    forget_and_ask(model, agents[:2])
    assert model.membership.recovering
    refusals = [m for m in heard(agents) if isinstance(m, Refused)]
    assert "2 of 3 nodes of round 2 came back" in refusals[-1].reason
    assert not any(refusal.final for refusal in refusals)
    assert all(agent.state is LocalState.RUNNING for agent in agents)
    model.advance(LEASE + 0.1)
    model.reconnect_all()
    assert model.membership.round.number == 3
    assert model.running == {"n1", "n2"}
    assert model.membership.job.restarts == 1, "only the worker that failed before costs one"


def test_a_fresh_node_waits_until_the_job_is_remembered() -> None:
    model, agents = three()
    forget_and_ask(model, agents[:2])
    newcomer = model.join()
    assert isinstance(newcomer.told[-1], Refused)
    assert newcomer.node is None
    model.connect(agents[2])
    model.advance(0)
    model.reconnect_all()
    assert model.membership.round.number == 2
    assert model.running == {"n1", "n2", "n3"}
    assert newcomer.node is not None
    assert newcomer.node > SKIPPED_IDS


def test_fresh_nodes_that_came_first_join_again_when_the_job_is_remembered() -> None:
    model, agents = three()
    model.lose_memory()
    newcomer = model.join()
    assert newcomer.node == 0, "an id that another node holds, as nobody can know"
    model.connect(agents[0])
    assert isinstance(newcomer.told[-1], Fenced)
    for _ in range(2):
        model.reconnect_all()
        model.advance(0.1)
    assert model.membership.round.number == 2
    assert model.running == {"n1", "n2", "n3"}


def test_a_round_of_fresh_nodes_is_followed_by_one_newer_than_all_that_were_seen() -> None:
    model = Model(min_nodes=1, max_nodes=2, last_call=0)
    old = model.join()
    for _ in range(3):
        model.fail(old)
    assert old.seen == 4
    model.lose_memory()
    fresh = model.join()
    assert (model.membership.round.number, model.running) == (1, {fresh.name})
    model.connect(old)
    assert isinstance(old.told[-1], Fenced)
    model.crash_master()
    for _ in range(2):
        model.reconnect_all()
        model.advance(1)
    assert model.running == {old.name, fresh.name}
    assert model.membership.round.number == 5


def test_a_node_that_was_fenced_before_still_says_which_rounds_it_saw() -> None:
    model = Model(min_nodes=1, max_nodes=1, lease=LEASE)
    agent = model.join()
    model.fail(agent)
    model.cut(agent)
    model.advance(1)
    model.connect(agent)
    assert isinstance(agent.told[-1], Fenced)
    model.lose_memory()
    model.connect(agent)
    assert model.running == {agent.name}
    assert agent.round == 3


def test_a_node_that_comes_late_gets_an_id_that_nobody_had() -> None:
    model, agents = three()
    late = model.join()
    held = late.node
    forget_and_ask(model, agents)
    model.join()
    model.connect(late)
    assert isinstance(late.told[-1], Fenced)
    model.connect(late)
    assert late.node is not None
    assert held is not None
    assert late.node > held + SKIPPED_IDS


def test_what_was_recalled_is_kept() -> None:
    model, agents = three()
    forget_and_ask(model, agents)
    model.crash_master()
    model.reconnect_all()
    model.advance(1)
    assert model.membership.round.number == 2
    assert model.running == {"n1", "n2", "n3"}
    assert model.membership.job.recalled == 2
    model.fail(agents[1])
    assert model.membership.round.number == 3


def test_a_failure_in_the_meantime_costs_a_restart_as_ever() -> None:
    model, agents = three()
    agents[1].state = LocalState.FAILED
    forget_and_ask(model, [agents[0], agents[2], agents[1]])
    assert model.membership.round.number == 3
    assert model.membership.job.restarts == 2
    assert model.running == {"n1", "n2", "n3"}


def test_a_job_that_ended_well_in_the_meantime_ends_well() -> None:
    model, agents = three()
    for agent in agents:
        agent.state = LocalState.SUCCEEDED
    forget_and_ask(model, agents)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_a_round_that_was_being_formed_is_followed_by_a_newer_one() -> None:
    model, agents = three()
    model.answering = False
    model.fail(agents[0])
    assert {agent.round for agent in agents} == {3}
    model.answering = True
    forget_and_ask(model, agents)
    assert model.membership.recovering
    model.advance(LEASE)
    model.reconnect_all()
    assert model.membership.round.number == 4
    assert model.running == {"n1", "n2", "n3"}


def test_workers_that_were_told_to_stop_do_not_make_a_round() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=LEASE)
    first, second = model.join(), model.join()
    first.state = second.state = LocalState.IDLE
    forget_and_ask(model, [first, second])
    assert model.membership.recovering
    model.advance(LEASE)
    model.reconnect_all()
    assert model.running == {first.name, second.name}
    assert model.membership.round.number == 2


@pytest.mark.parametrize("field", ["group_rank", "first_rank", "world_size", "group_world_size"])
def test_agents_that_contradict_each_other_do_not_make_a_round(field: str) -> None:
    model, agents = three()
    start = agents[1].start
    assert start is not None
    agents[1].start = msgspec.structs.replace(start, **{field: getattr(start, field) + 1})
    forget_and_ask(model, agents)
    assert model.membership.recovering
    model.advance(LEASE)
    model.reconnect_all()
    assert model.membership.round.number == 3
    assert model.running == {"n1", "n2", "n3"}


def test_numbers_that_no_agent_can_have_are_not_believed() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    for about in ({"seen": MAX_TRUSTED + 1}, {"node": 7, "round": MAX_TRUSTED + 1}):
        liar = PretendAgent(name="liar")
        for name, value in about.items():
            setattr(liar, name, value)
        answer = model.membership.hello(liar.hello(model.elasticity), now=model.now)
        assert not isinstance(answer, Refused)
        assert not model.membership.recovering
    assert model.membership.job.floor == 0


def test_a_replacement_finds_its_predecessors_slot_after_the_loss() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=LEASE)
    agents = [model.join(rank=1, generation=1), model.join(rank=3, generation=2)]
    assert model.running == {"n1", "n2"}
    forget_and_ask(model, agents)
    assert {node.record.slot for node in model.membership.nodes} == {1, 3}
    model.kill(agents[0])
    new = model.join(rank=1, generation=3)
    assert model.running == {"n2", new.name}
    assert new.start is not None
    assert new.start.group_rank == 0


def test_the_jobs_end_is_told_to_whoever_comes_while_the_master_remembers() -> None:
    model, agents = three()
    forget_and_ask(model, agents[:1])
    model.membership.stop("enough", now=model.now)
    model.connect(agents[1])
    assert model.membership.job.outcome is Outcome.STOPPED
    assert model.membership.next_deadline(model.now) is None
    assert model.membership.round.record == RoundRecord()


def test_rounds_go_on_being_counted_in_the_same_run() -> None:
    model, agents = three()
    for agent in agents:
        assert agent.start is not None
        agent.start = msgspec.structs.replace(agent.start, run="0123abcd")
    forget_and_ask(model, agents)
    assert model.membership.round.number == 2
    model.fail(agents[0])
    assert {agent.start.run for agent in agents if agent.start} == {"0123abcd"}
    assert model.membership.round.number == 3
