"""A script that cannot be run fails its job at once, unless something else may help."""

from __future__ import annotations

import pytest

from resile.wire.messages import JobDone, Outcome
from tests.unit.master.model import Model, PretendAgent

ERROR = "ModuleNotFoundError: No module named 'x'"


def outcome(agent: PretendAgent) -> JobDone | None:
    return next((said for said in agent.told if isinstance(said, JobDone)), None)


@pytest.mark.parametrize("nodes", [1, 2])
def test_in_the_first_round_the_job_fails_at_once_and_says_why(nodes: int) -> None:
    model = Model(min_nodes=nodes, max_nodes=nodes, max_restarts=3)
    agents = [model.join() for _ in range(nodes)]
    model.fail(agents[-1], cannot_start=ERROR)
    for agent in agents:
        done = outcome(agent)
        assert done is not None
        assert done.outcome is Outcome.FAILED
        assert ERROR in done.reason
        assert "no restart would change that" in done.reason
        assert done.report is not None


def test_later_rounds_spend_restarts_as_ever() -> None:
    model = Model(min_nodes=1, max_nodes=1, max_restarts=3)
    agent = model.join()
    model.fail(agent)
    model.fail(agent, cannot_start=ERROR)
    assert outcome(agent) is None
    assert model.membership.job.restarts == 2


def test_workers_that_had_reached_the_process_group_are_restarted() -> None:
    model = Model(min_nodes=1, max_nodes=1, max_restarts=3)
    agent = model.join()
    model.membership.reports.reached(model.fence(agent), reached=(0,), missing=(), now=model.now)
    model.fail(agent, cannot_start=ERROR)
    assert outcome(agent) is None


def test_a_job_that_can_do_without_the_node_goes_on() -> None:
    model = Model(min_nodes=1, max_nodes=2, max_restarts=3)
    healthy, broken = model.join(), model.join()
    model.fail(broken, cannot_start=ERROR)
    assert outcome(healthy) is None
