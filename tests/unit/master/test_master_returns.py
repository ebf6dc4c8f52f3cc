"""A restarted master continues from its records, and from the agents' messages meanwhile."""

from __future__ import annotations

from tests.unit.master.model import Model


def test_a_returned_master_goes_on_with_the_same_round_and_ids() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    ids = (first.node, second.node)
    model.crash_master()
    model.reconnect_all()
    model.advance(10)
    assert (first.node, second.node) == ids
    assert model.membership.round.number == 1
    assert model.running == {first.name, second.name}
    model.fail(first)
    assert model.membership.round.number == 2
    assert model.running == {first.name, second.name}


def test_a_master_that_dies_while_a_round_forms_goes_on_forming_it() -> None:
    model = Model(min_nodes=2, max_nodes=2)
    first, second = model.join(), model.join()
    model.answering = False
    model.fail(first)
    model.answer_prepare(second)
    model.crash_master()
    model.answering = True
    model.reconnect_all()
    assert model.running == {first.name, second.name}


def test_a_node_that_died_with_the_master_is_noticed_by_the_next() -> None:
    model = Model(min_nodes=1, max_nodes=2, lease=5)
    first, second = model.join(), model.join()
    model.crash_master()
    model.agents.pop(second.name)
    model.reconnect_all()
    model.advance(5.1)
    assert model.running == {first.name}


def test_a_failure_during_the_masters_absence_is_told_on_return() -> None:
    model = Model(min_nodes=1, max_nodes=1)
    agent = model.join()
    model.crash_master()
    from resile.wire.messages import LocalState

    agent.state = LocalState.FAILED
    model.reconnect_all()
    assert model.membership.round.number == 2
    assert model.running == {agent.name}


def test_a_returned_master_does_not_hasten_the_end_of_agents_still_on_their_way() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5)
    first, second = model.join(), model.join()
    model.crash_master()
    model.connect(first)
    model.fail(first)
    model.advance(0.5)
    model.connect(second)
    assert second.node is not None
    assert model.running == {first.name, second.name}


def test_a_returned_master_lets_nobody_replace_agents_that_are_still_on_their_way() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5)
    first, second = model.join(rank=0), model.join(rank=1)
    model.crash_master()
    model.join(rank=1)
    model.reconnect_all()
    model.advance(1)
    assert model.running == {first.name, second.name}
    assert model.membership.round.number == 1
