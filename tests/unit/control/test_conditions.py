"""The conditions and messages in a job's status."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from resile.control.conditions import with_condition
from resile.job.exits import NodeExit
from resile.job.status import Condition, ConditionStatus, ConditionType, JobPhase
from resile.job.view import headline
from tests.unit.control.builders import at, job
from tests.unit.control.simulation import SimulatedPlatform

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def condition(sim: SimulatedPlatform, kind: ConditionType) -> Condition:
    found = sim.status.condition(kind)
    assert found is not None
    return found


def test_a_condition_is_not_listed_before_it_has_held() -> None:
    none = with_condition((), ConditionType.FAILED, holds=False, reason="r", message="", now=at(0))
    assert none == ()


def test_the_transition_time_moves_only_when_the_status_changes() -> None:
    listed = with_condition(
        (), ConditionType.RUNNING, holds=True, reason="a", message="1", now=at(0)
    )
    listed = with_condition(
        listed, ConditionType.RUNNING, holds=True, reason="b", message="2", now=at(5)
    )
    assert (listed[0].reason, listed[0].message) == ("b", "2")
    assert listed[0].last_transition_time == at(0)
    listed = with_condition(
        listed, ConditionType.RUNNING, holds=False, reason="c", message="3", now=at(9)
    )
    assert listed[0].last_transition_time == at(9)


def test_a_job_goes_from_created_over_pending_and_running_to_restarting_and_back() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 2}}), room=1)
    sim.look()
    assert sim.status.phase is JobPhase.PENDING
    sim.settle()
    assert sim.status.phase is JobPhase.PENDING
    waits = sim.status.condition(ConditionType.RUNNING)
    assert waits is not None
    assert (waits.status, waits.reason) == (ConditionStatus.FALSE, "NotStarted")
    assert "worker rank 1 is pending" in waits.message
    sim.room = 2
    sim.place()
    sim.look()
    assert sim.status.phase is JobPhase.RUNNING
    assert condition(sim, ConditionType.RUNNING).message == "2 of 2 nodes are running"
    assert condition(sim, ConditionType.RUNNING).reason == "JobRunning"
    sim.room = 1
    sim.end(sim.node("worker", 1), NodeExit(reason="Preempted"))
    sim.settle()
    assert sim.status.phase is JobPhase.RESTARTING
    assert condition(sim, ConditionType.RUNNING).status is FALSE
    assert (
        "role worker has 1 of the 2 nodes it needs" in condition(sim, ConditionType.RUNNING).message
    )
    assert "was preempted" in condition(sim, ConditionType.RESTARTING).message
    sim.room = 2
    sim.place()
    sim.look()
    assert sim.status.phase is JobPhase.RUNNING
    assert condition(sim, ConditionType.RESTARTING).status is FALSE


def test_a_running_job_says_what_is_missing() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}}), room=1)
    sim.settle()
    sim.look()
    assert condition(sim, ConditionType.RUNNING).message == (
        "1 of 2 nodes are running; worker rank 1 is pending"
    )


def test_a_node_without_room_for_long_says_since_when_and_keeps_to_it() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}}), room=1)
    sim.wait(9 * 60)
    sim.settle()
    sim.wait(29)
    decision = sim.look()
    assert sim.rank("worker", 1).message == ""
    assert decision.requeue_after == timedelta(seconds=1)
    sim.wait(1)
    sim.look()
    since = "requested at 2030-01-01 00:09 UTC and still unschedulable"
    assert sim.rank("worker", 1).message == since
    told = sim.status
    sim.wait(3600)
    assert sim.look().status == told
    waiting = sim.node("worker", 1)
    sim.nodes[waiting.id] = replace(sim.nodes[waiting.id], message="0/2 nodes are available")
    sim.look()
    assert sim.rank("worker", 1).message == f"{since}: 0/2 nodes are available"
    sim.room = 2
    sim.place()
    sim.look()
    assert since not in sim.rank("worker", 1).message


def test_a_running_job_says_when_it_cannot_have_the_size_asked_for() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}}, replicas=9))
    sim.settle()
    sim.look()
    assert condition(sim, ConditionType.RUNNING).message == (
        "2 of 2 nodes are running; role worker is limited to 2: 9 is more than max (2)"
    )


def test_scaling_holds_until_the_size_is_reached() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 4, "wanted": 1}}}))
    sim.settle()
    assert sim.status.condition(ConditionType.SCALING) is None
    sim.wanted["worker"] = 3
    sim.look()
    assert condition(sim, ConditionType.SCALING).status is TRUE
    assert condition(sim, ConditionType.SCALING).reason == "ScalingUp"
    sim.settle()
    assert condition(sim, ConditionType.SCALING).status is FALSE
    sim.wanted["worker"] = 1
    sim.look()
    assert condition(sim, ConditionType.SCALING).reason == "ScalingDown"
    sim.settle()
    assert condition(sim, ConditionType.SCALING).status is TRUE
    sim.let_stop()
    sim.look()
    assert condition(sim, ConditionType.SCALING).status is FALSE


def test_a_long_list_of_troubles_is_cut_short() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 9}}), room=0)
    sim.settle()
    for rank in range(9):
        sim.end(sim.node("worker", rank), NodeExit(reason="NodeLost"))
    sim.look()
    assert condition(sim, ConditionType.RESTARTING).message.endswith("; and 6 more")


def test_nodes_without_a_master_have_not_begun() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 2}}))
    sim.no_master = "exceeded quota"
    sim.settle()
    waits = condition(sim, ConditionType.RUNNING)
    assert sim.status.phase is JobPhase.PENDING
    assert (waits.status, waits.reason) == (FALSE, "NotStarted")
    assert waits.message == "2 of 2 nodes are running"
    ready = condition(sim, ConditionType.MASTER_READY)
    assert (ready.status, ready.reason) == (FALSE, "MasterUnavailable")
    assert ready.message == sim.status.master_problem == "exceeded quota"
    assert [note.reason for note in sim.status.decisions].count("NoMaster") == 1
    sim.no_master = ""
    sim.look()
    assert sim.status.phase is JobPhase.RUNNING
    assert condition(sim, ConditionType.MASTER_READY).status is TRUE
    assert sim.status.master_problem == ""
    assert condition(sim, ConditionType.RUNNING).message == "2 of 2 nodes are running"


def test_nodes_that_train_go_on_without_a_master_and_it_is_said() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 2}}))
    sim.settle()
    sim.no_master = "its image cannot be pulled"
    sim.look()
    runs = condition(sim, ConditionType.RUNNING)
    assert sim.status.phase is JobPhase.RUNNING
    assert (runs.status, runs.reason) == (TRUE, "JobRunning")
    assert sim.status.master_problem == "its image cannot be pulled"
    assert "the job has no master: its image cannot be pulled" in headline(sim.status)


def test_a_finished_job_needs_no_master() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 1}}))
    sim.settle()
    sim.end(sim.node("worker", 0), NodeExit(code=0))
    sim.look()
    ready = condition(sim, ConditionType.MASTER_READY)
    assert (ready.status, ready.reason) == (FALSE, "JobSucceeded")
