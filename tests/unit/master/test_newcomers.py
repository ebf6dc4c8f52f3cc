"""A node that cannot run the script joins a training job: its failures count only for itself."""

from __future__ import annotations

from resile.wire.messages import JobDone
from tests.unit.master.model import Model, PretendAgent


def one_that_trains(**sizes: object) -> tuple[Model, PretendAgent]:
    model = Model(**{"min_nodes": 1, "max_nodes": 2, "last_call": 0, "max_restarts": 1, **sizes})
    agent = model.join()
    model.advance(0.1)
    model.reach(agent)
    return model, agent


def joined(model: Model) -> PretendAgent:
    newcomer = model.join()
    model.advance(0.2)
    assert newcomer.name in model.running
    return newcomer


def test_a_newcomer_that_fails_before_it_trains_costs_the_job_no_restart() -> None:
    model, agent = one_that_trains()
    newcomer = joined(model)
    model.fail(newcomer, message="No module named 'einops'")
    model.advance(0.3)
    assert model.running == {agent.name}
    assert model.membership.job.restarts == 0
    done = newcomer.told[-1]
    assert isinstance(done, JobDone)
    assert done.others_go_on
    assert done.report is not None
    assert done.report.failure.message == "No module named 'einops'"


def test_any_number_of_broken_newcomers_leaves_the_job_training() -> None:
    model, agent = one_that_trains(max_restarts=0)
    for _ in range(5):
        model.fail(joined(model))
        model.advance(0.3)
    assert model.running == {agent.name}
    assert not model.ended


def test_a_newcomer_that_has_trained_fails_as_everybody_else() -> None:
    model, agent = one_that_trains()
    newcomer = joined(model)
    model.report(newcomer, 1)
    model.fail(newcomer)
    assert model.membership.job.restarts == 1
    assert model.running == {agent.name, newcomer.name}


def test_in_a_jobs_first_round_nobody_is_a_newcomer() -> None:
    model = Model(min_nodes=1, max_nodes=2, max_restarts=1)
    first, second = model.join(), model.join()
    model.reach(first)
    model.fail(second)
    assert model.membership.job.restarts == 1
    assert model.running == {first.name, second.name}


def test_a_newcomer_that_fails_because_another_node_is_lost_is_not_to_blame() -> None:
    model, agent = one_that_trains(max_nodes=3)
    second = joined(model)
    model.reach(second)
    newcomer = joined(model)
    model.fail(newcomer)
    model.kill(second)
    model.advance(1)
    assert model.running == {agent.name, newcomer.name}
    assert model.membership.job.restarts == 0


def test_a_newcomer_whose_worker_was_killed_gets_one_more_chance() -> None:
    model, agent = one_that_trains(max_restarts=0)
    newcomer = joined(model)
    model.fail(newcomer, code=-9)
    assert model.running == {agent.name, newcomer.name}
    model.fail(newcomer, code=-9)
    model.advance(0.3)
    assert model.running == {agent.name}


def test_it_is_still_known_after_a_masters_return_who_has_trained() -> None:
    model, agent = one_that_trains()
    model.crash_master()
    model.reconnect_all()
    model.advance(1)
    model.fail(joined(model))
    model.advance(0.3)
    assert model.running == {agent.name}
    assert model.membership.job.restarts == 0


def test_nobody_is_asked_to_save_in_a_round_that_a_newcomer_has_just_failed() -> None:
    model, agent = one_that_trains(max_nodes=3)
    second = model.join(saves=True)
    model.advance(0.2)
    model.reach(second)
    newcomer = joined(model)
    model.fail(newcomer)
    model.ask_to_leave(second)
    assert second.name not in model.agents, "it need not wait"
    model.advance(0.3)
    assert model.running >= {agent.name}
