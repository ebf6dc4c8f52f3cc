"""Suspending, deleting and cleaning up: what is removed, what is kept, and for how long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resile.control.actions import DeleteNode, StopNode
from resile.control.policy import DEFAULT_POLICY
from resile.job.exits import NodeExit
from resile.job.node import NodePhase
from resile.job.status import JobPhase
from tests.unit.control.builders import job
from tests.unit.control.simulation import SimulatedPlatform, running, suspend

# --- what outlives a program -----------------------------------------------------------------


def test_what_lingers_of_an_ended_node_is_stopped_and_holds_up_no_replacement() -> None:
    sim = running()
    ended = sim.node("worker", 1)
    sim.end(ended, NodeExit(code=3), lingers=True)
    decision = sim.look()
    stops = [action for action in decision.actions if isinstance(action, StopNode)]
    assert [(stop.node, stop.grace_seconds) for stop in stops] == [(ended, 30)]
    assert sim.started[-1].node.rank == 1
    assert sim.nodes[ended.id].stopping
    assert not sim.look().actions


def test_a_stop_of_what_lingers_is_asked_for_until_it_shows() -> None:
    sim = running()
    ended = sim.node("worker", 1)
    sim.end(ended, NodeExit(code=0), lingers=True)
    assert sim.look(carry_out=False).actions
    sim.wait(5)
    assert not sim.look(carry_out=False).actions
    sim.wait(5)
    assert [type(action) for action in sim.look().actions] == [StopNode]
    assert [request.node for request in sim.status.pending_requests] == [ended]
    sim.let_stop()
    sim.look()
    assert sim.status.pending_requests == ()
    assert sim.rank("worker", 1).phase is NodePhase.SUCCEEDED


def test_a_job_is_kept_until_nothing_of_it_lingers() -> None:
    sim = running(job({"worker": {}}, ttlSecondsAfterFinished=10))
    sim.end(sim.node("worker", 0), NodeExit(code=0), lingers=True)
    sim.settle()
    assert sim.status.phase is JobPhase.SUCCEEDED
    sim.wait(10)
    assert not sim.look().removable
    sim.let_stop()
    assert sim.look().removable


def test_a_job_is_kept_also_for_what_somebody_else_stops() -> None:
    sim = running(job({"worker": {}}, ttlSecondsAfterFinished=10))
    ended = sim.node("worker", 0)
    sim.end(ended, NodeExit(code=0), lingers=True)
    sim.carry_out(StopNode(node=ended, grace_seconds=30, reason="kubectl delete"))
    sim.look()
    sim.wait(10)
    decision = sim.look()
    assert not decision.actions
    assert not decision.removable


def test_a_replacement_that_had_to_pause_does_not_wait_for_what_lingers() -> None:
    sim = running()
    for _ in range(2):
        sim.end(sim.node("worker", 0), NodeExit(code=1), lingers=True)
        sim.look()
    assert sim.rank("worker", 0).phase is NodePhase.WAITING
    sim.wait(1)
    sim.look()
    assert [found.lingers for found in sim.nodes.values()].count(True) == 2
    assert sim.started[-1].node.id == 3


def test_cleaning_up_leaves_what_lingers_its_grace_period() -> None:
    sim = running(job({"worker": {}}, cleanPodPolicy="All"))
    sim.end(sim.node("worker", 0), NodeExit(code=0), lingers=True)
    assert [type(action) for action in sim.look().actions] == [StopNode]
    sim.let_stop()
    assert [type(action) for action in sim.look().actions] == [DeleteNode]


# --- suspending, deleting, cleaning ----------------------------------------------------------


def test_suspending_stops_all_nodes_for_nothing_and_resuming_brings_the_ranks_back() -> None:
    sim = running()
    suspend(sim, True)
    sim.settle()
    assert sim.status.phase is JobPhase.SUSPENDED
    sim.let_stop()
    sim.settle()
    assert not sim.live()
    assert sim.status.start_time is None
    suspend(sim, False)
    sim.wait(1000)
    sim.settle()
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.status.start_time == sim.now
    assert sim.status.spent == 0
    assert [start.node.id for start in sim.started] == [0, 1, 2, 3]
    assert [start.node.rank for start in sim.started[2:]] == [0, 1]


def test_a_job_may_be_created_suspended() -> None:
    sim = SimulatedPlatform(job(suspend=True))
    assert not sim.look().actions
    assert sim.status.phase is JobPhase.SUSPENDED
    suspend(sim, False)
    sim.settle()
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.status.roles["worker"].scaling == ""


def test_deleting_a_job_stops_everything_and_then_its_record_may_go() -> None:
    sim = running()
    sim.deleting = True
    assert all(isinstance(action, StopNode) for action in sim.look().actions)
    assert not sim.look().removable
    sim.let_stop()
    assert sim.look().removable == "the job was deleted and all its nodes have ended"
    assert len(sim.started) == 2


def test_a_finished_job_is_removable_after_its_time_to_live() -> None:
    sim = running(job(ttlSecondsAfterFinished=60))
    for rank in (0, 1):
        sim.end(sim.node("worker", rank), NodeExit(code=0))
    sim.settle()
    assert sim.status.phase is JobPhase.SUCCEEDED
    sim.wait(20)
    decision = sim.look()
    assert not decision.removable
    assert decision.requeue_after == timedelta(seconds=40)
    sim.wait(40)
    assert "ttlSecondsAfterFinished" in sim.look().removable


@pytest.mark.parametrize("lingers", [False, True])
def test_what_was_left_running_is_stopped_when_its_jobs_time_is_over(lingers: bool) -> None:
    described = job({"worker": {}, "ps": {}}, cleanPodPolicy="None", ttlSecondsAfterFinished=60)
    sim = running(described)
    if lingers:
        sim.end(sim.node("ps", 0), NodeExit(code=0))
    sim.end(sim.node("worker", 0), NodeExit(code=0), lingers=lingers)
    decision = sim.look()
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert not decision.actions
    assert decision.requeue_after == timedelta(seconds=60)
    sim.wait(60)
    decision = sim.look()
    assert [type(action) for action in decision.actions] == [StopNode]
    assert not decision.removable
    assert not sim.look().actions
    sim.let_stop()
    assert sim.look().removable == "ttlSecondsAfterFinished (60 s) has passed"


def test_a_job_that_is_deleted_stops_also_what_it_left_running() -> None:
    sim = running(job({"worker": {}}, cleanPodPolicy="None"))
    sim.end(sim.node("worker", 0), NodeExit(code=0), lingers=True)
    assert not sim.look().actions
    sim.deleting = True
    assert [type(action) for action in sim.look().actions] == [StopNode]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("Running", {StopNode}), ("All", {StopNode, DeleteNode}), ("None", set())],
)
def test_what_happens_to_nodes_at_the_end_is_the_clean_pod_policys_to_say(
    policy: str, expected: set[type]
) -> None:
    sim = running(job({"worker": {}, "ps": {}}, cleanPodPolicy=policy))
    sim.end(sim.node("worker", 0), NodeExit(code=0))
    decision = sim.look()
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert {type(action) for action in decision.actions} == expected


def test_nodes_left_running_after_the_end_are_followed_and_not_replaced() -> None:
    sim = running(job({"worker": {}, "ps": {}}, cleanPodPolicy="None"))
    sim.end(sim.node("worker", 0), NodeExit(code=0))
    sim.look()
    assert sim.rank("ps", 0).phase is NodePhase.RUNNING
    sim.end(sim.node("ps", 0), NodeExit(code=1))
    assert not sim.look().actions
    assert sim.rank("ps", 0).phase is NodePhase.FAILED


# --- what is of no interest any more ------------------------------------------------------------


def test_of_nodes_that_were_replaced_only_the_latest_stay() -> None:
    kept = DEFAULT_POLICY.ended_kept
    sim = running(job({"worker": {"replicas": 1}}))
    for _ in range(kept + 3):
        (node,) = (found.node for found in sim.live())
        sim.now += timedelta(minutes=10)
        sim.end(node, NodeExit(reason="Evicted"))
        sim.settle()
    ended = sorted(found.node.id for found in sim.nodes.values() if not found.live)
    assert ended == list(range(3, kept + 3)), "the oldest go first"
