"""Nodes that are lost and come back repeatedly must not break rounds forever."""

from __future__ import annotations

from resile.master.failures import LASTING_ROUND, MAX_LOSSES
from resile.wire.messages import Outcome
from tests.unit.master.model import Model, PretendAgent


def two() -> tuple[Model, PretendAgent, PretendAgent]:
    model = Model(min_nodes=1, max_nodes=2, lease=5)
    return model, model.join(), model.join()


def lose_and_return(model: Model, agent: PretendAgent) -> None:
    """It is silent for longer than its lease, is evicted, and rejoins."""
    model.agents.pop(agent.name)
    model.advance(6)
    model.agents[agent.name] = agent
    if not model.ended:
        model.connect(agent)
        model.advance(1)


def test_a_job_that_gets_nowhere_ends_and_says_why() -> None:
    model, _, flaky = two()
    for _ in range(MAX_LOSSES):
        assert not model.ended
        lose_and_return(model, flaky)
    assert model.membership.job.outcome is Outcome.FAILED
    assert f"lost {MAX_LOSSES} times (no heartbeat for 5 s)" in model.membership.job.reason
    assert model.membership.job.report is not None
    assert model.membership.job.report.name == flaky.name


def test_a_job_that_takes_new_steps_in_between_goes_on() -> None:
    model, steady, flaky = two()
    for step in range(2 * MAX_LOSSES):
        model.report(steady, step)
        lose_and_return(model, flaky)
    assert not model.ended


def test_steps_that_were_taken_before_are_no_progress() -> None:
    model, steady, flaky = two()
    for _ in range(MAX_LOSSES):
        model.report(steady, 7)
        lose_and_return(model, flaky)
    assert model.ended


def test_rounds_that_last_are_progress_where_no_step_is_reported() -> None:
    model, _, flaky = two()
    for _ in range(2 * MAX_LOSSES):
        model.advance(LASTING_ROUND)
        lose_and_return(model, flaky)
    assert not model.ended


def test_losses_of_different_nodes_do_not_add_up() -> None:
    model, _, _ = two()
    for _ in range(2 * MAX_LOSSES):
        model.kill(model.join())
        model.advance(1)
        model.kill(next(a for a in list(model.agents.values())[1:] if a.name in model.running))
        model.advance(1)
        model.join()
        model.advance(1)
    assert not model.ended
