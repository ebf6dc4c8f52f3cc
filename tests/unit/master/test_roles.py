"""Roles that share one world: each has its own sizes, and the first has the first ranks."""

from __future__ import annotations

import msgspec
import pytest

from resile.job.elasticity import ElasticityError, RoleSize
from resile.master.records import RoundPhase
from resile.wire.messages import Refused, RolePlace, Wait
from tests.unit.master.model import Model, PretendAgent

CHIEF = {"name": "chief", "min_nodes": 1, "max_nodes": 1}
WORKER = {"name": "worker", "min_nodes": 1, "max_nodes": 3}


def model(**more: object) -> Model:
    sizes = {"min_nodes": 2, "max_nodes": 4, "roles": [CHIEF, WORKER], **more}
    return Model(**sizes)


def place(agent: PretendAgent) -> tuple[int, int]:
    assert agent.start is not None
    return agent.start.group_rank, agent.start.first_rank


def test_no_round_forms_without_a_role_that_is_needed() -> None:
    job = model(last_call=1.0)
    workers = [job.join(role="worker") for _ in range(3)]
    job.advance(30)
    assert not job.running
    told = [message.reason for message in workers[0].told if isinstance(message, Wait)]
    assert told == ["waiting for nodes: role chief: 0 of at least 1 joined"]
    job.join(role="chief")
    job.advance(1)
    assert len(job.running) == 4


def test_the_first_role_has_rank_0_whoever_comes_first() -> None:
    job = model()
    workers = [job.join(role="worker", nproc=2) for _ in range(3)]
    chief = job.join(role="chief")
    assert place(chief) == (0, 0)
    assert [place(worker) for worker in workers] == [(1, 1), (2, 3), (3, 5)]


def test_a_replaced_chief_has_rank_0_again_and_nobody_trains_without_it() -> None:
    job = model()
    workers = [job.join(role="worker", rank=rank, generation=1) for rank in range(3)]
    job.kill(job.join(role="chief", rank=0, generation=1))
    job.advance(5)
    assert job.membership.round.phase is RoundPhase.GATHERING
    assert not job.running
    chief = job.join(role="chief", rank=0, generation=2)
    job.advance(1)
    assert place(chief) == (0, 0)
    assert [place(worker)[0] for worker in workers] == [1, 2, 3]


def test_a_lost_worker_costs_the_round_and_not_the_chief_its_rank() -> None:
    job = model()
    chief = job.join(role="chief")
    workers = [job.join(role="worker") for _ in range(3)]
    job.kill(workers[0])
    job.advance(2)
    assert place(chief) == (0, 0)
    assert job.membership.round.number == 2
    assert len(job.running) == 3


def test_a_role_has_no_more_nodes_than_it_may_and_the_others_wait() -> None:
    job = model()
    chiefs = [job.join(role="chief"), job.join(role="chief")]
    for _ in range(4):
        job.join(role="worker")
    assert len(job.running) == 4
    assert sum(chief.name in job.running for chief in chiefs) == 1


def test_units_are_those_of_each_role() -> None:
    job = model(
        max_nodes=5, last_call=0.5, roles=[CHIEF, {**WORKER, "max_nodes": 4, "node_unit": 2}]
    )
    job.join(role="chief")
    for _ in range(3):
        job.join(role="worker")
    job.advance(1)
    assert len(job.running) == 3, "one chief and two of three workers"


def test_workers_know_their_place_in_their_role() -> None:
    job = model()
    workers = [job.join(role="worker", nproc=2) for _ in range(3)]
    chief = job.join(role="chief")
    assert chief.start is not None
    assert chief.start.role_place == RolePlace(0, 1)
    places = [worker.start.role_place for worker in workers if worker.start is not None]
    assert places == [RolePlace(0, 6), RolePlace(2, 6), RolePlace(4, 6)]


def test_a_role_that_does_not_train_here_is_refused_by_name() -> None:
    job = model()
    stray = job.join(role="evaluator")
    refusal = stray.told[-1]
    assert isinstance(refusal, Refused)
    assert refusal.final
    assert refusal.reason == (
        "no node of role 'evaluator' trains in this job, only chief, worker: "
        "give one of these with --role"
    )


def test_changed_sizes_are_told_as_they_are_written() -> None:
    job = model()
    larger = msgspec.convert({**WORKER, "max_nodes": 5}, RoleSize)
    chief = job.elasticity.roles[0]
    changed = msgspec.structs.replace(job.elasticity, max_nodes=6, roles=(chief, larger))
    job.membership.adapt(changed, now=job.now)
    told = job.membership.effects.events[-1].text
    assert told == ("the job runs with max_nodes=6, roles=chief:1:1:1/worker:1:5:1 from now on")


def test_a_master_that_lost_its_memory_has_the_same_ranks_again() -> None:
    job = model()
    agents = [job.join(role="worker") for _ in range(3)]
    agents.append(job.join(role="chief"))
    before = {agent.name: place(agent) for agent in agents}
    job.lose_memory()
    for _ in range(2):  # they are asked to come again
        job.reconnect_all()
        job.advance(0)
    assert job.membership.round.number == 1
    assert {node.record.slot for node in job.membership.nodes} == {0, 1, 2}
    job.kill(agents[0])
    job.advance(5)
    late = job.join(role="worker")
    job.advance(5)
    assert place(agents[-1]) == before[agents[-1].name] == (0, 0)
    assert [place(worker)[0] for worker in (late, *agents[1:3])] == [1, 2, 3]


@pytest.mark.parametrize(("least", "most"), [(-1, 1), (2, 1), (0, 5001)])
def test_sizes_that_cannot_be_are_refused(least: int, most: int) -> None:
    with pytest.raises(ElasticityError, match="role chief: MIN"):
        RoleSize(name="chief", min_nodes=least, max_nodes=most)
