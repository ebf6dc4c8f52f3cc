"""The life of a job, step by step, on a simulated platform."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from resile.control.actions import DeleteNode, StartNode, StopNode
from resile.control.observed import UNSCHEDULABLE, Observed, ObservedNode
from resile.control.reconcile import reconcile
from resile.job.exits import NodeExit
from resile.job.node import Node, NodePhase
from resile.job.spec import ElasticJob
from resile.job.status import JobPhase, JobStatus
from tests.unit.control.builders import at, job, seen
from tests.unit.control.simulation import SimulatedPlatform


def running(described: ElasticJob | None = None, room: int = 1000) -> SimulatedPlatform:
    sim = SimulatedPlatform(described or job(), room=room)
    sim.settle()
    return sim


def suspend(sim: SimulatedPlatform, value: bool) -> None:
    sim.job = replace(sim.job, spec=replace(sim.job.spec, suspend=value))


def ask_for(sim: SimulatedPlatform, replicas: int | None) -> None:
    sim.job = replace(sim.job, spec=replace(sim.job.spec, replicas=replicas))


# --- starting -------------------------------------------------------------------------------


def test_a_new_job_gets_all_its_nodes_with_everything_needed_to_start_them() -> None:
    described = job(
        {
            "worker": {
                "replicas": 2,
                "script": "train.py",
                "args": ["--lr", "0.1"],
                "procsPerNode": 4,
                "env": {"A": "1"},
                "workingDir": "/data",
                "priority": "high=0.5",
                "resources": {"limits": {"cpu": 2}},
                "terminationGracePeriodSeconds": 7,
            }
        }
    )
    decision = reconcile(described, JobStatus(), Observed(), at(0))
    first, second = decision.actions
    assert isinstance(first, StartNode)
    assert isinstance(second, StartNode)
    assert first.node == Node(role="worker", rank=0, id=0, name="train-worker-0")
    assert second.node == Node(role="worker", rank=1, id=1, name="train-worker-1")
    assert first.command == (
        *("resile", "run", "--nnodes=2:2", "--nproc-per-node=4", "--max-restarts=3"),
        *("--role=worker", "train.py", "--lr", "0.1"),
    )
    assert first.env == {"A": "1"}
    assert first.working_dir == "/data"
    assert first.resources.requests == {"cpu": "2"}
    assert first.grace_seconds == 7
    assert (first.priority.class_name, second.priority.class_name) == ("high", "low")
    assert first.reason == "role worker is to have 2 nodes"


def test_ids_are_unique_in_the_job_and_names_count_within_each_role() -> None:
    sim = running(job({"chief": {}, "ps": {"replicas": 2}, "worker": {"replicas": 2}}))
    assert [(start.node.id, start.node.name) for start in sim.started] == [
        (0, "train-chief-0"),
        (1, "train-ps-0"),
        (2, "train-ps-1"),
        (3, "train-worker-0"),
        (4, "train-worker-1"),
    ]


def test_a_role_starts_only_when_the_one_it_depends_on_is_running() -> None:
    described = job({"worker": {"replicas": 2, "dependsOn": ["chief"]}, "chief": {}})
    sim = SimulatedPlatform(described, room=0)
    sim.settle()
    assert [start.node.name for start in sim.started] == ["train-chief-0"]
    assert sim.rank("worker", 0).message == "waits for chief (0 of 1 running)"
    sim.room = 10
    sim.place()
    sim.settle()
    assert [start.node.role for start in sim.started] == ["chief", "worker", "worker"]
    assert sim.status.phase is JobPhase.RUNNING


def test_without_room_a_node_is_pending_and_the_job_trains_with_those_it_has() -> None:
    sim = running(job({"worker": {"replicas": {"min": 2, "max": 3}}}), room=2)
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.rank("worker", 2).phase is NodePhase.PENDING
    assert sim.rank("worker", 2).reason == UNSCHEDULABLE


# --- relaunching ----------------------------------------------------------------------------


def test_a_replacement_takes_a_new_id_and_the_old_rank() -> None:
    sim = running(job({"worker": {"replicas": 4}}))
    sim.end(sim.node("worker", 0), NodeExit(code=143, reason="Preempted"))
    sim.settle()
    assert sim.started[-1].node == Node(role="worker", rank=0, id=4, name="train-worker-4")
    assert sim.started[-1].reason == (
        "train-worker-0 (rank 0) was preempted; relaunched, no budget spent"
    )
    assert sim.status.spent == 0
    assert sim.rank("worker", 0).restarts == 1


def test_a_node_that_is_gone_from_the_report_was_deleted_and_is_replaced_for_nothing() -> None:
    sim = running()
    sim.vanish(sim.node("worker", 1))
    sim.settle()
    assert sim.node("worker", 1).id == 2
    assert sim.status.spent == 0
    assert "was deleted" in sim.status.decisions[-1].sentence


def test_failures_spend_the_budget_until_the_rank_is_given_up_and_the_job_fails() -> None:
    sim = running(job({"worker": {"replicas": 2, "restartBudget": {"perNode": 2}}}))
    for spent in (1, 2):
        sim.wait(100)
        sim.end(sim.node("worker", 1), NodeExit(code=5))
        sim.settle()
        assert sim.status.spent == spent
    sim.wait(100)
    sim.end(sim.node("worker", 1), NodeExit(code=5))
    sim.settle()
    assert sim.status.phase is JobPhase.FAILED
    message = sim.status.conditions[-1].message
    assert "role worker needs 2 nodes and can have 1" in message
    assert "restartBudget of 2 is spent" in message


def test_a_job_goes_on_without_a_rank_that_was_given_up_while_min_is_kept() -> None:
    described = job({"worker": {"replicas": {"min": 1, "max": 3}, "restartPolicy": "ExitCode"}})
    sim = running(described)
    sim.end(sim.node("worker", 1), NodeExit(code=2))
    sim.settle()
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.rank("worker", 1).phase is NodePhase.FAILED
    assert len(sim.started) == 3


def test_memory_doubles_on_the_rank_that_ran_out_and_nowhere_else() -> None:
    sim = running(job({"worker": {"replicas": 2, "resources": {"limits": {"memory": "4Gi"}}}}))
    sim.end(sim.node("worker", 0), NodeExit(code=137, oom=True))
    sim.settle()
    assert sim.started[-1].resources.limits == {"memory": "8Gi"}
    sim.vanish(sim.node("worker", 1))
    sim.settle()
    assert sim.started[-1].resources.limits == {"memory": "4Gi"}
    sim.vanish(sim.node("worker", 0))
    sim.settle()
    assert sim.started[-1].resources.limits == {"memory": "8Gi"}


def test_a_rank_that_keeps_crashing_waits_and_the_controller_asks_to_be_woken() -> None:
    sim = running()
    sim.end(sim.node("worker", 0), NodeExit(code=1))
    sim.settle()
    sim.end(sim.node("worker", 0), NodeExit(code=1))
    decision = sim.look()
    assert not decision.actions
    assert decision.requeue_after == timedelta(seconds=1)
    assert sim.rank("worker", 0).phase is NodePhase.WAITING
    sim.wait(1)
    assert len(sim.look().actions) == 1


def test_no_replacement_starts_while_the_former_node_may_still_be_alive() -> None:
    sim = running()
    former = sim.node("worker", 1)
    sim.wanted["worker"] = 2
    sim.job = job({"worker": {"replicas": {"min": 1, "max": 2}}})
    sim.wanted["worker"] = 1
    sim.look()
    sim.wanted["worker"] = 2
    sim.settle()
    assert sim.nodes[former.id].stopping
    assert len(sim.started) == 2
    sim.let_stop()
    sim.settle()
    assert sim.started[-1].node.rank == 1
    assert len(sim.started) == 3


# --- scaling --------------------------------------------------------------------------------


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


# --- what others read -----------------------------------------------------------------------


def test_the_status_counts_nodes_and_restarts_of_the_whole_job() -> None:
    sim = running(job({"worker": {"replicas": {"min": 1, "max": 3}}, "ps": {}}), room=3)
    sim.look()
    assert (sim.status.ready, sim.status.replicas, sim.status.restarts) == ("3/4", 3, 0)
    sim.end(sim.node("worker", 1), NodeExit(reason="Preempted"))
    sim.end(sim.node("ps", 0), NodeExit(reason="Preempted"))
    sim.look()
    assert (sim.status.ready, sim.status.replicas, sim.status.restarts) == ("2/4", 2, 2)
    suspend(sim, True)
    sim.settle()
    assert (sim.status.ready, sim.status.replicas) == ("0/4", 0)


def test_without_a_scaled_role_no_replicas_are_reported() -> None:
    sim = running(job({"ps": {}, "loader": {}}))
    sim.look()
    assert (sim.status.ready, sim.status.replicas) == ("2/2", 0)


def test_what_others_filled_in_stays_as_it_was() -> None:
    sim = running()
    sim.look()
    others = {
        "selector": "resile.dev/job=train",
        "step": 7,
        "throughput": "2.0 steps/s",
        "round": 1,
        "world_size": 2,
        "observed_generation": 3,
    }
    sim.status = replace(sim.status, **others)
    before = sim.status
    assert sim.look().status == before


# --- suspending, deleting, cleaning ---------------------------------------------------------


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


# --- a controller that forgets, a platform that is late -------------------------------------


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
        "the job has no role evaluator any more"
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
