"""A controller that loses its state, a platform that is late: nothing is created twice or lost."""

from __future__ import annotations

from datetime import timedelta

from resile.control.actions import StartNode, StopNode
from resile.control.observed import Observed, ObservedNode
from resile.control.reconcile import reconcile
from resile.job.node import Node, NodePhase
from resile.job.status import JobPhase, JobStatus
from tests.unit.control.builders import at, job, seen
from tests.unit.control.simulation import SimulatedPlatform, running


def test_a_node_that_never_appears_is_asked_for_again_under_a_new_id() -> None:
    sim = SimulatedPlatform(job({"worker": {}}))
    lost = sim.look(carry_out=False)
    assert lost.requeue_after == timedelta(seconds=10)
    sim.wait(9)
    assert not sim.look().actions
    sim.wait(1)
    sim.look()
    assert [start.node.id for start in sim.started] == [1]
    assert sim.status.spent == 0


def test_a_node_that_appears_after_its_rank_was_filled_anew_is_stopped() -> None:
    sim = SimulatedPlatform(job({"worker": {}}))
    late = sim.look(carry_out=False).actions[0].node
    sim.wait(10)
    sim.look()
    sim.nodes[late.id] = seen(late)
    decision = sim.look()
    assert [(type(a), a.node.id, a.reason) for a in decision.actions] == [
        (StopNode, late.id, "another node has taken its rank")
    ]


def test_a_stop_without_effect_is_repeated_after_a_while_and_not_before() -> None:
    sim = running(job({"worker": {"replicas": {"min": 1, "max": 2}}}))
    sim.wanted["worker"] = 1
    assert sim.look(carry_out=False).actions
    sim.wait(5)
    assert not sim.look(carry_out=False).actions
    sim.wait(5)
    assert [type(action) for action in sim.look(carry_out=False).actions] == [StopNode]


def test_nodes_are_kept_when_the_status_was_lost_and_no_id_is_used_again() -> None:
    sim = running()
    sim.status = JobStatus()
    assert not sim.look().actions
    assert sim.status.phase is JobPhase.RUNNING
    sim.vanish(sim.node("worker", 0))
    sim.settle()
    assert sim.started[-1].node == Node(role="worker", rank=0, id=2, name="train-worker-2")


def test_nodes_of_a_role_that_the_manifest_no_longer_has_are_stopped() -> None:
    sim = running(job({"worker": {}, "evaluator": {}}))
    sim.job = job({"worker": {}})
    decision = sim.look()
    assert [action.reason for action in decision.actions] == [
        "the job no longer has role evaluator"
    ]


def test_a_role_that_is_taken_out_and_put_back_does_not_use_its_names_again() -> None:
    both = job({"worker": {}, "evaluator": {}})
    sim = running(both)
    sim.job = job({"worker": {}})
    sim.settle()
    sim.let_stop()
    for node_id in [n for n, found in sim.nodes.items() if found.node.role == "evaluator"]:
        del sim.nodes[node_id]
    sim.look()
    sim.job = both
    sim.settle()
    assert sim.started[-1].node.name == "train-evaluator-1"


def test_a_node_on_its_way_out_is_not_told_again() -> None:
    stray = Node(role="worker", rank=7, id=3, name="train-worker-3")
    observed = Observed(nodes=(ObservedNode(stray, NodePhase.RUNNING, stopping=True),))
    decision = reconcile(job({"worker": {}}), JobStatus(), observed, at(0))
    assert [type(action) for action in decision.actions] == [StartNode]
    assert decision.actions[0].node.id == 4


def test_a_status_keeps_only_the_most_recent_decisions() -> None:
    sim = running(job({"worker": {"replicas": 2}}))
    for _ in range(60):
        sim.vanish(sim.node("worker", 0))
        sim.settle()
    assert len(sim.status.decisions) == 50
    assert "train-worker-60 " in sim.status.decisions[-1].sentence
