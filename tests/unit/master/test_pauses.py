"""Nodes that are paused: silent for longer than their lease, and then back."""

from __future__ import annotations

from tests.unit.master.model import Model


def kinds(model: Model) -> list[str]:
    return [event.kind for event in model.membership.effects.events]


def test_the_only_node_of_a_job_is_not_put_out_for_its_silence() -> None:
    model = Model(min_nodes=1, max_nodes=1, lease=5)
    agent = model.join()
    model.advance(8, renew=False)
    assert kinds(model).count("NodeSilent") == 1, "it is said, once"
    model.advance(8)
    assert model.running == {agent.name}
    assert model.membership.round.number == 1


def test_a_node_without_which_nobody_could_train_is_waited_for() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5)
    first, second = model.join(), model.join()
    paused = model.agents.pop(second.name)
    model.advance(60)
    assert model.membership.round.number == 1
    model.agents[paused.name] = paused
    model.advance(1)
    assert model.running == {first.name, second.name}
    assert model.membership.round.number == 1


def test_a_silent_node_is_put_out_as_soon_as_another_can_take_its_place() -> None:
    model = Model(min_nodes=1, max_nodes=1, lease=5)
    silent = model.join()
    model.agents.pop(silent.name)
    model.advance(8)
    newcomer = model.join()
    model.advance(1)
    assert model.running == {newcomer.name}


def test_a_replacement_of_a_silent_node_does_not_wait_for_it_to_save() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5)
    first = model.join(saves=True, rank=0, generation=0)
    silent = model.join(saves=True, rank=1, generation=1)
    model.agents.pop(silent.name)
    model.advance(8)
    successor = model.join(saves=True, rank=1, generation=2)
    assert model.running == {first.name, successor.name}


def test_a_node_that_stays_silent_is_given_up_when_a_missing_one_would_be() -> None:
    model = Model(min_nodes=2, max_nodes=2, lease=5, join_timeout=60)
    _, silent = model.join(), model.join()
    model.agents.pop(silent.name)
    model.advance(64)
    assert model.membership.round.number == 1
    model.advance(2)
    assert kinds(model)[-1] == "NodeLost"
    model.advance(61)
    assert model.ended
    assert "timed out after 60 s" in model.last_event


def test_a_silent_node_that_others_can_do_without_is_put_out() -> None:
    model = Model(min_nodes=1, max_nodes=2, lease=5)
    first, silent = model.join(), model.join()
    model.agents.pop(silent.name)
    model.advance(6)
    assert model.running == {first.name}
