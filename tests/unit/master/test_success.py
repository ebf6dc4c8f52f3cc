"""Which successes end a group, and what remains of a success when its node is lost."""

from __future__ import annotations

import pytest

from resile.job.elasticity import RoleSize
from resile.wire.messages import JobDone, LocalState, Outcome
from tests.unit.master.model import Model, PretendAgent

ROLES = [
    {"name": "master", "min_nodes": 1, "max_nodes": 1},
    {"name": "worker", "min_nodes": 1, "max_nodes": 2},
]


def of_two_roles(success: str = "first", masters: int = 1) -> tuple[Model, list[PretendAgent]]:
    """A job of a master, or two, and two workers that train."""
    first = {**ROLES[0], "min_nodes": masters, "max_nodes": masters}
    total = masters + 2
    model = Model(min_nodes=2, max_nodes=total, roles=[first, ROLES[1]], success=success)
    agents = [model.join(role="worker", rank=rank) for rank in range(2)]
    agents = [*(model.join(role="master", rank=rank) for rank in range(masters)), *agents]
    model.advance(4)
    assert len(model.running) == total
    return model, agents


def test_the_first_role_ends_the_group_and_the_others_stop() -> None:
    model, (master, *workers) = of_two_roles()
    model.succeed(workers[0])
    assert not model.ended, "a worker alone decides nothing"
    model.succeed(master)
    assert model.membership.job.outcome is Outcome.SUCCEEDED
    assert model.membership.job.reason == "all workers of the first role succeeded"
    done = workers[1].told[-1]
    assert isinstance(done, JobDone)
    assert done.outcome is Outcome.SUCCEEDED


def test_all_nodes_of_the_first_role_are_waited_for() -> None:
    model, (one, other, *workers) = of_two_roles(masters=2)
    model.succeed(one)
    for worker in workers:
        model.succeed(worker)
    assert not model.ended
    model.succeed(other)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_a_lost_node_of_the_first_role_is_trained_again_with_those_who_had_finished() -> None:
    model, (master, *workers) = of_two_roles()
    for worker in workers:
        model.succeed(worker)
    model.kill(master)
    model.advance(10)
    assert not model.ended, "its state is in the checkpoint, and a replacement goes on from it"
    replacement = model.join(role="master", rank=0)
    model.advance(1)
    assert len(model.running) == 3
    model.succeed(replacement)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_a_lost_node_of_another_role_that_had_finished_is_not_missed() -> None:
    model, (master, *workers) = of_two_roles()
    model.succeed(workers[0])
    model.kill(workers[0])
    model.advance(10)
    assert model.membership.round.number == 1
    model.succeed(master)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_one_node_is_enough_where_any_may_decide() -> None:
    model, (_, *workers) = of_two_roles("any")
    model.succeed(workers[1])
    assert model.membership.job.outcome is Outcome.SUCCEEDED
    assert model.membership.job.reason == "the workers of one node succeeded"


def test_without_roles_the_first_role_is_everybody() -> None:
    model = Model(min_nodes=2, max_nodes=2, success="first")
    agents = [model.join(), model.join()]
    model.succeed(agents[0])
    assert not model.ended
    model.succeed(agents[1])
    assert model.membership.job.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("success", ["all", "first"])
def test_a_success_outlives_its_node_and_the_master(success: str) -> None:
    model, (one, other, *workers) = of_two_roles(success, masters=2)
    model.succeed(one)
    model.kill(one)
    model.advance(10)
    assert model.membership.round.number == 1, "it was not needed any more"
    model.crash_master()
    model.reconnect_all()
    for agent in (*workers, other):
        model.succeed(agent)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_who_decides_is_known_again_when_the_memory_is_lost() -> None:
    model, (master, *workers) = of_two_roles()
    model.lose_memory()
    for _ in range(2):
        model.reconnect_all()
        model.advance(0.1)
    assert model.membership.round.number == 1
    assert workers[0].state is LocalState.RUNNING
    model.succeed(workers[0])
    assert not model.ended
    model.succeed(master)
    assert model.membership.job.outcome is Outcome.SUCCEEDED


def test_a_role_without_nodes_decides_nothing() -> None:
    roles = [RoleSize(name="chief", min_nodes=0, max_nodes=1), RoleSize(name="worker")]
    model = Model(min_nodes=1, max_nodes=2, roles=roles, success="first")
    worker = model.join(role="worker")
    model.advance(4)
    model.succeed(worker)
    assert model.membership.job.outcome is Outcome.SUCCEEDED
