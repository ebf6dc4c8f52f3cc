"""The number of nodes of a role, and which of them are removed first."""

from __future__ import annotations

from resile.control.actions import StopNode
from resile.job.exits import NodeExit
from tests.unit.control.builders import job
from tests.unit.control.simulation import ask_for, running


def test_scaling_down_stops_the_highest_ranks_and_spends_nothing() -> None:
    sim = running(job({"worker": {"replicas": {"min": 1, "max": 4}}}))
    sim.wanted["worker"] = 2
    decision = sim.look()
    assert [(type(action), action.node.rank) for action in decision.actions] == [
        (StopNode, 2),
        (StopNode, 3),
    ]
    assert decision.notes[0].sentence == "role worker: from 4 to 2 nodes"
    sim.let_stop()
    sim.settle()
    assert sim.status.roles["worker"].active == 2
    assert sim.status.spent == 0
    assert len(sim.started) == 4


def test_scaling_up_fills_the_lowest_free_ranks_and_keeps_what_they_learnt() -> None:
    described = job(
        {"worker": {"replicas": {"min": 1, "max": 3}, "resources": {"limits": {"memory": "4Gi"}}}}
    )
    sim = running(described)
    sim.end(sim.node("worker", 2), NodeExit(oom=True))
    sim.settle()
    sim.wanted["worker"] = 1
    sim.settle()
    sim.let_stop()
    sim.wanted["worker"] = 3
    sim.settle()
    assert [start.node.rank for start in sim.started[-2:]] == [1, 2]
    assert sim.started[-1].resources.limits == {"memory": "8Gi"}


def test_a_role_is_never_scaled_below_min() -> None:
    sim = running(job({"worker": {"replicas": {"min": 2, "max": 4}}}))
    sim.wanted["worker"] = 0
    sim.settle()
    assert sim.status.roles["worker"].wanted == 2
    assert "0 is less than min (2)" in sim.status.decisions[-1].sentence


def test_the_jobs_replicas_size_the_scaled_role_and_no_other() -> None:
    elastic = {"replicas": {"min": 1, "max": 4}}
    sim = running(job({"worker": elastic, "ps": elastic}, replicas=2))
    assert {name: role.wanted for name, role in sim.status.roles.items()} == {"worker": 2, "ps": 4}
    ask_for(sim, 3)
    sim.settle()
    assert sim.status.decisions[-1].sentence == "role worker: from 2 to 3 nodes"
    ask_for(sim, None)
    sim.settle()
    assert sim.status.roles["worker"].wanted == 4


def test_the_jobs_replicas_stay_within_the_roles_bounds() -> None:
    sim = running(job({"worker": {"replicas": {"min": 2, "max": 4, "wanted": 2}}}, replicas=9))
    assert sim.status.roles["worker"].wanted == 4
    ask_for(sim, 0)
    sim.settle()
    assert sim.status.roles["worker"].wanted == 2
    assert "0 is less than min (2)" in sim.status.decisions[-1].sentence


def test_a_scale_request_for_the_role_itself_goes_before_the_jobs_replicas() -> None:
    sim = running(job({"worker": {"replicas": {"min": 1, "max": 4}}}, replicas=2))
    sim.wanted["worker"] = 3
    sim.settle()
    assert sim.status.roles["worker"].wanted == 3
