"""A job whose nodes are all gone, and the next one at its endpoint."""

from __future__ import annotations

import pytest

from resile.job.elasticity import Elasticity
from resile.wire.messages import JobDone, Outcome, Refused, Welcome
from tests.unit.master.model import Model, PretendAgent

ALONE = Elasticity(min_nodes=1, max_nodes=1, max_restarts=3)


def left_behind() -> Model:
    """A job of two nodes that used a restart, all of whose processes were killed."""
    model = Model(min_nodes=2, max_nodes=2, max_restarts=1, lease=5)
    agents = [model.join(), model.join()]
    model.fail(agents[0])
    assert model.membership.job.restarts == 1
    model.agents.clear()
    model.crash_master()
    return model


def test_sizes_and_used_restarts_of_a_dead_job_are_not_inherited() -> None:
    model = left_behind()
    newcomer = model.join(terms=ALONE)
    model.advance(4)
    assert model.running == set(), "its nodes may still come back"
    model.elasticity = ALONE
    model.advance(2)
    assert model.running == {newcomer.name}
    assert model.membership.elasticity == ALONE
    assert model.membership.job.restarts == 0
    assert model.membership.round.number == 3, "rounds are never counted twice"


def test_who_continues_a_dead_job_is_told_so_and_how_to_forget_it() -> None:
    model = left_behind()
    newcomer = model.join(terms=ALONE)
    model.elasticity = ALONE
    model.advance(6)
    notes = [message.note for message in newcomer.told if isinstance(message, Welcome)]
    assert "to discard it, remove it" in notes[-1]
    assert any(e.kind == "JobContinued" for e in model.membership.effects.events)


def test_a_job_of_which_one_node_comes_back_keeps_its_terms() -> None:
    model = Model(min_nodes=2, max_nodes=2, max_restarts=1, lease=5)
    first, second = model.join(), model.join()
    model.fail(first)
    model.agents.pop(second.name)
    model.crash_master()
    model.connect(first)
    newcomer = model.join(terms=ALONE)
    model.advance(6)
    assert model.running == {first.name, newcomer.name}
    assert model.membership.elasticity == model.elasticity
    assert model.membership.job.restarts == 1


# --- a job that is over ---------------------------------------------------------------------------


def over() -> Model:
    model = Model(min_nodes=1, max_nodes=1)
    model.succeed(model.join())
    assert model.ended
    return model


def answer(model: Model, agent: PretendAgent) -> object:
    return model.membership.hello(agent.hello(model.elasticity), now=model.now)


@pytest.mark.parametrize("goes", [True, False])
def test_a_fresh_node_is_not_told_that_it_succeeded(goes: bool) -> None:
    model = Model(min_nodes=1, max_nodes=1)
    model.ends_with_job = goes
    model.groups = model._beginning()
    model.succeed(model.join())
    refusal = answer(model, PretendAgent(name="fresh"))
    assert isinstance(refusal, Refused)
    assert refusal.final is not goes, "a master that goes makes room for another"
    assert "is over (succeeded" in refusal.reason


@pytest.mark.parametrize(
    "late",
    [
        PretendAgent(name="n1", node=0, round=1),
        PretendAgent(name="n2", seen=1),
        PretendAgent(name="n3", rank=0, generation=4),
    ],
    ids=["a member", "one that was evicted", "one that its platform started"],
)
def test_who_belongs_to_the_job_hears_how_it_ended(late: PretendAgent) -> None:
    done = answer(over(), late)
    assert isinstance(done, JobDone)
    assert done.outcome is Outcome.SUCCEEDED
