"""The life of a job, step by step, on a simulated platform."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from resile.control.actions import StartNode
from resile.control.observed import UNSCHEDULABLE, Observed
from resile.control.reconcile import reconcile
from resile.control.start_requests import unseen_start_requests
from resile.job.exits import NodeExit
from resile.job.node import Node, NodePhase
from resile.job.status import JobPhase, JobStatus
from tests.unit.control.builders import at, job
from tests.unit.control.simulation import SimulatedPlatform, running, suspend

# --- starting --------------------------------------------------------------------------------


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
    assert first.reason == "role worker should have 2 nodes"


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


# --- relaunching -----------------------------------------------------------------------------


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


def test_a_node_that_came_and_went_between_two_looks_is_replaced_under_another_id() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 2}}))
    sim.look()
    sim.vanish(sim.node("worker", 1))
    sim.gone.add(1)
    assert not sim.rank("worker", 1).seen
    sim.look()
    assert sim.node("worker", 1).id == 2
    assert sim.status.spent == 0
    assert "train-worker-1 (rank 1) was deleted" in sim.status.decisions[-1].sentence
    assert unseen_start_requests(sim.job, sim.status, sim.nodes.values()) == ()


def test_a_node_that_was_made_twice_is_stopped_before_its_rank_gets_another() -> None:
    sim = running(job({"worker": {"replicas": 2}}))
    sim.gone.add(1)
    sim.look()
    assert sim.nodes[1].stopping
    assert sim.rank("worker", 1).phase is NodePhase.WAITING
    sim.let_stop()
    sim.settle()
    assert sim.node("worker", 1).id == 2


def test_nobody_waits_for_a_node_to_appear_that_is_known_to_be_gone() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 2}}))
    sim.look()
    for rank in (0, 1):
        sim.vanish(sim.node("worker", rank))
    sim.gone |= {0, 1}
    sim.deleting = True
    assert sim.look().removable


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


# --- what others read ------------------------------------------------------------------------


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
