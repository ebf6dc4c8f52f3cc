"""A master that dies during a handover, at any message: no workers wait forever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from resile.wire.messages import HandoverCancelled
from tests.unit.master.model import Model, PretendAgent

MESSAGES = 25
"""More than any of these handovers has."""


def two_that_train() -> tuple[Model, list[PretendAgent]]:
    model = Model(min_nodes=1, max_nodes=3, last_call=1)
    agents = [model.join(saves=True), model.join(saves=True)]
    model.advance(1)
    return model, agents


def joined(model: Model, _: list[PretendAgent]) -> None:
    model.join(saves=True)
    model.advance(0.2)


def asked_to_leave(model: Model, agents: list[PretendAgent]) -> None:
    model.ask_to_leave(agents[1])


def both_asked_to_leave(model: Model, agents: list[PretendAgent]) -> None:
    for agent in agents:
        if agent.name in model.agents:
            model.ask_to_leave(agent)


@pytest.mark.parametrize("newcomers_die", [False, True])
@pytest.mark.parametrize("change", [joined, asked_to_leave, both_asked_to_leave])
@pytest.mark.parametrize("messages", range(MESSAGES))
def test_nobody_holds_for_a_handover_that_died_with_its_master(
    messages: int, change: Callable[[Model, list[PretendAgent]], None], newcomers_die: bool
) -> None:
    model, agents = two_that_train()
    model.dies_in, model.newcomers_die = messages, newcomers_die
    change(model, agents)
    model.dies_in = None
    model.reconnect_all()
    model.advance(7)
    model.reconnect_all()
    model.advance(1)
    assert len(model.running) == len(model.agents)
    assert not [agent.name for agent in model.agents.values() if agent.holding]


def test_workers_of_a_node_that_finds_no_master_go_on_by_themselves() -> None:
    model, agents = two_that_train()
    agents[0].slow = True
    model.join()
    model.advance(0.2)
    assert agents[1].holding
    model.crash_master()
    model.advance(model.elasticity.longest_hold)
    assert not agents[1].holding


def test_members_go_on_when_the_newcomer_they_save_for_is_gone() -> None:
    model, agents = two_that_train()
    agents[0].slow = True
    newcomer = model.join()
    model.advance(0.2)
    assert agents[1].holding
    model.kill(newcomer)
    model.advance(1)
    assert not agents[1].holding
    assert isinstance(agents[1].told[-1], HandoverCancelled)
    assert model.membership.round.number == 1, "nobody had to stop for it"


def test_members_go_on_when_who_wanted_to_leave_does_not() -> None:
    model, agents = two_that_train()
    model.membership.reports.leaving(model.fence(agents[1]), "SIGTERM", now=model.now)
    model.settle()
    assert agents[0].holding
    model.advance(model.elasticity.lease + 0.1)
    assert not agents[0].holding
    assert model.membership.round.number == 1


def test_a_second_change_in_the_same_round_is_prepared_as_the_first_was() -> None:
    model, agents = two_that_train()
    agents[0].slow = True
    newcomer = model.join()
    model.advance(0.2)
    model.kill(newcomer)
    model.advance(1)
    agents[0].slow = False
    model.join()
    model.advance(0.2)
    assert len(model.running) == 3
    assert "all 2 nodes hold step 7" in " ".join(e.text for e in model.membership.effects.events)
