"""Pods, and pods that were never made, as nodes."""

from __future__ import annotations

from typing import Any

import pytest

from resile.control.observed import UNSCHEDULABLE
from resile.job.exits import ExitCause, classify
from resile.job.node import NodePhase
from resile.job.status import JobStatus
from resile.platform.kubernetes.facts import machine_state, parse_time, pod_facts
from resile.platform.kubernetes.observing import PodRefusal, observe_nodes, owned_by
from resile.platform.kubernetes.pods import node_pod

from .jobs import UID, job, order

READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
SILENT = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def pod(status: dict[str, Any], *, host: str = "node-a") -> dict[str, Any]:
    made = node_pod(job(), order(), uid=UID, environment=[])
    if host:
        made["spec"]["nodeName"] = host
    return {**made, "status": status}


def see(*pods: dict[str, Any], **given: Any) -> Any:
    usual: dict[str, Any] = {
        "status": JobStatus(),
        "machines": {"node-a": READY},
        "refused": {},
        "in_touch": (),
        "preempted": {},
    }
    return observe_nodes(pods, **{**usual, **given})


def container(state: dict[str, Any]) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "node", "state": state}]}


def test_a_running_pod_is_a_running_node() -> None:
    (found,) = see(
        pod({"phase": "Running", **container({"running": {"startedAt": "2026-01-02T03:04:05Z"}})})
    )
    assert found.phase is NodePhase.RUNNING
    assert found.host == "node-a"
    assert found.started_at == parse_time("2026-01-02T03:04:05Z")


def test_the_first_containers_end_is_the_nodes_whatever_sidecars_do() -> None:
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    statuses = [
        {"name": "sidecar", "state": {"running": {}}},
        {"name": "node", "state": state},
    ]
    (found,) = see(pod({"phase": "Running", "containerStatuses": statuses}))
    assert classify(found.exit) is ExitCause.OUT_OF_MEMORY


def test_an_init_container_that_cannot_start_speaks_for_the_pod() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {
        "phase": "Pending",
        **container({"waiting": {"reason": "PodInitializing"}}),
        "initContainerStatuses": [{"name": "fetch", "state": waiting}],
    }
    (found,) = see(pod(status))
    assert found.phase is NodePhase.PENDING
    assert "no such image" in found.message


def test_a_pod_without_a_place_waits_for_room() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    (found,) = see(pod({"phase": "Pending", "conditions": [condition]}, host=""))
    assert found.reason == UNSCHEDULABLE


def test_a_machine_that_is_silent_loses_its_pods_unless_their_agents_answer() -> None:
    running = pod({"phase": "Running"})
    (lost,) = see(running, machines={"node-a": SILENT})
    assert classify(lost.exit) is ExitCause.NODE_LOST
    (kept,) = see(running, machines={"node-a": SILENT}, in_touch=["digits-worker-7"])
    assert kept.phase is NodePhase.RUNNING


def test_a_pod_of_whose_preemption_an_event_tells_was_preempted() -> None:
    deleting = pod({"phase": "Running"})
    deleting["metadata"].update(uid="1", deletionTimestamp="2026-01-02T03:04:05Z")
    (deleted,) = see(deleting)
    assert classify(deleted.exit) is ExitCause.DELETED
    (preempted,) = see(deleting, preempted={"1": "Preempted by default/urgent on node node-a"})
    assert classify(preempted.exit) is ExitCause.PREEMPTED
    assert "by default/urgent" in preempted.exit.message


def test_a_pod_that_the_quota_forbids_waits_and_says_so() -> None:
    refusal = PodRefusal(order(), "Forbidden", "exceeded quota: compute", final=False)
    (found,) = see(refused={7: refusal})
    assert found.phase is NodePhase.PENDING
    assert "exceeded quota" in found.message


def test_a_pod_that_is_invalid_can_never_run() -> None:
    refusal = PodRefusal(order(), "Invalid", "spec.containers[0].image: Required", final=True)
    (found,) = see(refused={7: refusal})
    assert classify(found.exit) is ExitCause.CANNOT_RUN
    assert "image" in found.exit.message


def test_a_pod_that_came_to_be_after_all_is_believed() -> None:
    refusal = PodRefusal(order(), "NotTaken", "the API server is away", final=False)
    (found,) = see(pod({"phase": "Running"}), refused={7: refusal})
    assert found.phase is NodePhase.RUNNING


def test_an_earlier_job_of_the_same_name_owns_nothing_here() -> None:
    assert owned_by(UID, pod({}))
    assert not owned_by("another", pod({}))


@pytest.mark.parametrize(
    ("machine", "state"),
    [(None, "Gone"), (READY, "Ready"), (SILENT, "Unknown"), ({"status": {}}, "Unknown")],
)
def test_a_machines_state(machine: Any, state: str) -> None:
    assert machine_state(machine).value == state


def test_the_zero_time_of_a_container_that_never_ran_is_none() -> None:
    assert parse_time("0001-01-01T00:00:00Z") is None
    assert parse_time(None) is None


def test_a_terminated_container_without_a_reason_has_failed() -> None:
    facts = pod_facts(order().node, pod(container({"terminated": {"exitCode": 1}})), {})
    assert facts.terminated == "Error"
