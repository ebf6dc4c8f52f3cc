"""Roles of every kind in one job: dependencies between them, and what ends the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from resile.control.observed import GroupReport
from resile.job.exits import NodeExit
from resile.job.node import NodePhase
from resile.job.status import ConditionType, JobPhase
from tests.unit.control.builders import job
from tests.unit.control.simulation import SimulatedPlatform

OK, BAD = NodeExit(code=0), NodeExit(code=2)
TRAIN = {"script": "train.py"}


def running(roles: dict[str, dict[str, Any]], **spec: Any) -> SimulatedPlatform:
    sim = SimulatedPlatform(job(roles, **spec))
    sim.settle()
    return sim


def end(sim: SimulatedPlatform, role: str, rank: int, how: NodeExit = OK) -> None:
    sim.end(sim.node(role, rank), how)
    sim.settle()


def message(sim: SimulatedPlatform) -> str:
    last = sim.status.conditions[-1]
    assert last.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
    return last.message


def report(sim: SimulatedPlatform, *, group: str, succeeded: bool) -> None:
    sim.reports[group] = GroupReport(succeeded=succeeded, reason=f"{group} is over", at=sim.now)


# --- waiting --------------------------------------------------------------------------------


def test_who_depends_on_a_server_with_ports_waits_until_it_is_ready() -> None:
    sim = running({"ps": {"ports": {"grpc": 2222}}, "worker": {"dependsOn": ["ps"]}})
    assert sim.rank("worker", 0).phase is NodePhase.WAITING
    assert sim.rank("worker", 0).message == "waits for ps (0 of 1 ready)"
    server = sim.node("ps", 0)
    sim.nodes[server.id] = replace(sim.nodes[server.id], ready=True)
    sim.settle()
    assert sim.rank("worker", 0).phase is NodePhase.RUNNING


def test_a_replaced_server_is_not_ready_because_its_predecessor_was() -> None:
    sim = running({"ps": {"ports": {"grpc": 2222}}, "worker": {"replicas": 2}})
    server = sim.node("ps", 0)
    sim.nodes[server.id] = replace(sim.nodes[server.id], ready=True)
    sim.settle()
    assert sim.rank("ps", 0).ready
    end(sim, "ps", 0, BAD)
    assert sim.rank("ps", 0).phase is NodePhase.RUNNING
    assert not sim.rank("ps", 0).ready


def test_who_depends_on_success_waits_for_it() -> None:
    sim = running({"data": {"replicas": 2}, "worker": {"dependsOn": {"data": "Succeeded"}}})
    end(sim, "data", 0)
    assert sim.rank("worker", 0).message == "waits for data (1 of 2 succeeded)"
    end(sim, "data", 1)
    assert sim.rank("worker", 0).phase is NodePhase.RUNNING


# --- success --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "rank", "over"), [("Any", 1, True), ("Rank0", 1, False), ("Rank0", 0, True)]
)
def test_one_node_may_be_enough(policy: str, rank: int, over: bool) -> None:
    sim = running({"worker": {"replicas": 2, "successPolicy": policy}})
    end(sim, "worker", rank)
    assert (sim.status.phase is JobPhase.SUCCEEDED) is over


def test_any_of_several_roles_may_be_enough() -> None:
    roles: dict[str, dict[str, Any]] = {"search": {}, "sweep": {}}
    success = {"roles": ["search", "sweep"]}
    both = running(roles, success=success)
    end(both, "sweep", 0)
    assert both.status.phase is JobPhase.RUNNING
    either = running(roles, success={**success, "policy": "Any"})
    end(either, "sweep", 0)
    assert either.status.phase is JobPhase.SUCCEEDED
    assert message(either) == "1 sweep node completed"


def test_a_job_may_wait_for_a_group_and_for_independent_workers() -> None:
    sim = running(
        {"trainer": TRAIN, "loader": {"kind": "Independent"}},
        success={"roles": ["trainer", "loader"]},
    )
    report(sim, group="train", succeeded=True)
    end(sim, "trainer", 0)
    assert sim.status.phase is JobPhase.RUNNING
    end(sim, "loader", 0, BAD)
    assert sim.rank("loader", 0).phase is NodePhase.RUNNING, "the loader is replaced as before"
    end(sim, "loader", 0)
    assert sim.status.phase is JobPhase.SUCCEEDED


def test_the_end_of_one_group_is_not_the_end_of_another() -> None:
    sim = running(
        {"worker": TRAIN, "tester": TRAIN},
        groups={"train": {"roles": ["worker"]}, "evaluate": {"roles": ["tester"]}},
        success={"roles": ["worker", "tester"]},
    )
    report(sim, group="evaluate", succeeded=True)
    end(sim, "tester", 0)
    assert sim.rank("tester", 0).phase is NodePhase.SUCCEEDED
    end(sim, "worker", 0, BAD)
    assert sim.rank("worker", 0).phase is NodePhase.RUNNING, "the training goes on"
    report(sim, group="train", succeeded=True)
    end(sim, "worker", 0)
    assert sim.status.phase is JobPhase.SUCCEEDED


# --- failure --------------------------------------------------------------------------------


def test_the_failure_of_a_required_group_fails_the_job_and_says_which() -> None:
    groups = {"train": {"roles": ["worker"]}, "evaluate": {"roles": ["tester"]}}
    sim = running({"worker": TRAIN, "tester": TRAIN}, groups=groups)
    report(sim, group="evaluate", succeeded=False)
    end(sim, "tester", 0, BAD)
    assert sim.status.phase is JobPhase.FAILED
    assert message(sim) == "evaluate: evaluate is over"


def test_the_failure_of_a_group_that_is_not_required_is_not_the_jobs() -> None:
    sim = running(
        {"worker": TRAIN, "tester": {**TRAIN, "failurePolicy": "Ignore"}},
        groups={"train": {"roles": ["worker"]}, "evaluate": {"roles": ["tester"]}},
    )
    report(sim, group="evaluate", succeeded=False)
    end(sim, "tester", 0, BAD)
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.rank("tester", 0).phase is NodePhase.FAILED


def test_under_any_node_one_node_that_was_given_up_fails_the_job() -> None:
    roles = {"worker": {"replicas": {"min": 1, "max": 3}, "restartPolicy": "Never"}}
    patient = running(roles)
    end(patient, "worker", 1, BAD)
    assert patient.status.phase is JobPhase.RUNNING
    roles["worker"]["failurePolicy"] = "AnyNode"
    strict = running(roles)
    end(strict, "worker", 1, BAD)
    assert strict.status.phase is JobPhase.FAILED
    assert message(strict).startswith("failurePolicy of role worker is AnyNode: train-worker-1")


def test_a_killed_independent_worker_stops_nobody() -> None:
    sim = running({"ps": {"replicas": 2}, "worker": {"replicas": 3, "kind": "Independent"}})
    others = {found.node for found in sim.live()} - {sim.node("worker", 1)}
    end(sim, "worker", 1, NodeExit(code=137))
    assert others < {found.node for found in sim.live() if not found.stopping}
    assert sim.node("worker", 1).name == "train-worker-3"
