"""The end of a job, and its outcome."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resile.control.observed import GroupReport
from resile.control.policy import DEFAULT_POLICY
from resile.job.exits import NodeExit
from resile.job.node import NodePhase
from resile.job.status import ConditionType, JobPhase
from tests.unit.control.builders import job
from tests.unit.control.simulation import SimulatedPlatform

OK, BAD = NodeExit(code=0), NodeExit(code=2)


def running(sim: SimulatedPlatform) -> SimulatedPlatform:
    sim.settle()
    return sim


def end(sim: SimulatedPlatform, role: str, rank: int, how: NodeExit = OK) -> None:
    sim.end(sim.node(role, rank), how)
    sim.look()


def reason(sim: SimulatedPlatform) -> str:
    last = sim.status.conditions[-1]
    assert last.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
    return last.reason


def test_all_workers_have_to_complete() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": 2}})))
    end(sim, "worker", 0)
    assert sim.status.phase is JobPhase.RUNNING
    end(sim, "worker", 1)
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert reason(sim) == "NodesCompleted"
    assert sim.status.conditions[-1].message == "2 worker nodes completed"
    assert sim.status.completion_time == sim.now


def test_where_there_is_a_chief_only_its_completion_counts() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": 2}, "chief": {}})))
    end(sim, "worker", 0)
    end(sim, "worker", 1)
    assert sim.status.phase is not JobPhase.SUCCEEDED
    end(sim, "chief", 0)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_ps_and_evaluator_never_hold_up_success_and_are_stopped_after_it() -> None:
    sim = running(SimulatedPlatform(job({"worker": {}, "ps": {}, "evaluator": {}})))
    end(sim, "worker", 0)
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert {found.node.role for found in sim.live() if found.stopping} == {"ps", "evaluator"}


def test_the_manifest_may_name_the_roles_that_count() -> None:
    described = job({"worker": {}, "evaluator": {}}, success={"roles": ["evaluator"]})
    sim = running(SimulatedPlatform(described))
    end(sim, "worker", 0)
    assert sim.status.phase is not JobPhase.SUCCEEDED
    end(sim, "evaluator", 0)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_a_rank_without_room_does_not_hold_up_success() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 3}}}), room=2))
    sim.room = 0
    end(sim, "worker", 0)
    assert sim.status.phase is JobPhase.RUNNING
    end(sim, "worker", 1)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_a_rank_that_failed_has_to_run_again_first() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}})))
    sim.room = 0
    end(sim, "worker", 1, NodeExit(code=1))
    end(sim, "worker", 0)
    assert sim.status.phase is not JobPhase.SUCCEEDED
    sim.room = 1
    sim.place()
    sim.look()
    end(sim, "worker", 1)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_min_nodes_have_to_complete_even_when_the_others_were_given_up() -> None:
    described = job({"worker": {"replicas": {"min": 2, "max": 3}, "restartPolicy": "Never"}})
    sim = running(SimulatedPlatform(described))
    end(sim, "worker", 2, BAD)
    end(sim, "worker", 0)
    end(sim, "worker", 1)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_a_required_role_that_cannot_reach_min_fails_the_job() -> None:
    sim = running(SimulatedPlatform(job({"worker": {}, "ps": {"restartPolicy": "Never"}})))
    end(sim, "ps", 0, BAD)
    assert sim.status.phase is JobPhase.FAILED
    assert reason(sim) == "TooFewNodes"
    assert "restartPolicy is Never" in sim.status.conditions[-1].message
    assert sim.rank("worker", 0).phase is NodePhase.STOPPED


@pytest.mark.parametrize("role", [{}, {"required": True}])
def test_an_evaluator_is_not_required_unless_the_manifest_says_so(role: dict[str, bool]) -> None:
    described = job({"worker": {}, "evaluator": {"restartPolicy": "Never", **role}})
    sim = running(SimulatedPlatform(described))
    end(sim, "evaluator", 0, BAD)
    assert (sim.status.phase is JobPhase.FAILED) == bool(role)


def test_another_rank_takes_the_place_of_one_that_was_given_up_if_max_allows() -> None:
    described = job(
        {"worker": {"replicas": {"min": 2, "max": 3, "wanted": 2}, "restartPolicy": "Never"}}
    )
    sim = running(SimulatedPlatform(described))
    end(sim, "worker", 1, BAD)
    sim.settle()
    assert [start.node.rank for start in sim.started] == [0, 1, 2]
    end(sim, "worker", 2, BAD)
    assert sim.status.phase is JobPhase.FAILED


def test_the_backoff_limit_fails_the_job() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": 2}}, backoffLimit=1)))
    end(sim, "worker", 0, NodeExit(code=1))
    assert not sim.status.finished
    end(sim, "worker", 1, NodeExit(code=1))
    assert sim.status.phase is JobPhase.FAILED
    assert reason(sim) == "BackoffLimitExceeded"


def test_the_deadline_fails_the_job_and_the_controller_asks_to_be_woken_for_it() -> None:
    sim = SimulatedPlatform(job(activeDeadlineSeconds=100))
    sim.settle()
    sim.wait(40)
    assert sim.look().requeue_after == timedelta(seconds=60)
    sim.wait(60)
    sim.look()
    assert reason(sim) == "DeadlineExceeded"


def test_the_masters_failure_is_the_jobs_failure_and_nothing_is_relaunched() -> None:
    sim = running(SimulatedPlatform(job()))
    sim.master = GroupReport(succeeded=False, reason="rank 1 raised ValueError", at=sim.now)
    end(sim, "worker", 0, NodeExit(code=1))
    assert sim.status.phase is JobPhase.FAILED
    assert sim.status.conditions[-1].message == "rank 1 raised ValueError"
    assert len(sim.started) == 2


def test_after_the_masters_success_nodes_may_leave_by_themselves_and_none_is_replaced() -> None:
    sim = running(SimulatedPlatform(job()))
    sim.master = GroupReport(succeeded=True, reason="100 steps", at=sim.now)
    decision = sim.look()
    assert not decision.actions
    assert not sim.status.finished
    assert decision.requeue_after == timedelta(seconds=30)
    end(sim, "worker", 0)
    end(sim, "worker", 1, NodeExit(signal=9))
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert reason(sim) == "TrainingSucceeded"
    assert len(sim.started) == 2


def test_a_node_that_does_not_leave_after_success_is_stopped_in_the_end() -> None:
    sim = running(SimulatedPlatform(job()))
    sim.master = GroupReport(succeeded=True, reason="100 steps", at=sim.now)
    sim.look()
    sim.wait(30)
    sim.look()
    assert sim.status.phase is JobPhase.SUCCEEDED
    assert all(found.stopping for found in sim.live())


def test_suspending_a_half_done_job_is_not_its_success() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}})))
    end(sim, "worker", 0)
    sim.job = job({"worker": {"replicas": {"min": 1, "max": 2}}}, suspend=True)
    sim.settle()
    assert sim.status.phase is JobPhase.SUSPENDED


def test_nodes_of_a_failed_training_may_say_their_last_words() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": 2, "script": "train.py"}})))
    sim.master = GroupReport(succeeded=False, reason="rank 1 raised ValueError", at=sim.now)
    sim.look()
    assert sim.status.phase is JobPhase.RUNNING
    for found in sim.live():
        sim.end(found.node, NodeExit(code=1))
    sim.look()
    assert sim.status.phase is JobPhase.FAILED
    failed = sim.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message == "rank 1 raised ValueError"


def test_nodes_that_hang_after_a_failed_training_are_stopped() -> None:
    sim = running(SimulatedPlatform(job({"worker": {"replicas": 2, "script": "train.py"}})))
    sim.master = GroupReport(succeeded=False, reason="rank 1 raised ValueError", at=sim.now)
    sim.look()
    sim.now += DEFAULT_POLICY.exit_timeout
    stopped = {action.node.rank for action in sim.look().actions}
    assert stopped == {0, 1}
    assert sim.status.phase is JobPhase.FAILED
