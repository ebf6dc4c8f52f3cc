"""Pods, and pods that were never created, as nodes."""

from __future__ import annotations

from typing import Any

import pytest

from resile.control.observed import UNSCHEDULABLE
from resile.job.exits import ExitCause, classify
from resile.job.node import NodePhase
from resile.job.status import JobStatus, NodeRequest, RequestVerb
from resile.operator.build.pods import build_node_pod
from resile.operator.observe.nodes import (
    NodeStates,
    RejectedPod,
    Retryability,
    observe_nodes,
    owned_by,
)
from resile.operator.observe.pod_status import parse_time, pod_facts
from tests.unit.operator.build.jobs import UID, job, order

READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
SILENT = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def pod(status: dict[str, Any], *, host: str = "node-a") -> dict[str, Any]:
    made = build_node_pod(job(), order(), uid=UID, environment=[])
    if host:
        made["spec"]["nodeName"] = host
    return {**made, "status": status}


def see(*pods: dict[str, Any], **given: Any) -> Any:
    usual: dict[str, Any] = {
        "status": JobStatus(),
        "machines": NodeStates({("", "node-a"): READY}),
        "refused": {},
        "reachable": (),
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


def test_a_container_that_the_cluster_puts_first_does_not_speak_for_the_node() -> None:
    statuses = [
        {"name": "proxy", "state": {"running": {}}},
        {"name": "node", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}},
    ]
    found = pod({"phase": "Running", "containerStatuses": statuses})
    found["spec"]["containers"].insert(0, {"name": "proxy"})
    (seen,) = see(found)
    assert seen.exit.code == 3


@pytest.mark.parametrize("state", [{"running": {}}, {"waiting": {"reason": "ErrImagePull"}}, {}])
def test_a_node_lingers_until_all_its_containers_have_ended(state: dict[str, Any]) -> None:
    ended = {"name": "node", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    status = {"phase": "Running", "containerStatuses": [{"name": "side", "state": state}, ended]}
    (found,) = see(pod(status))
    assert found.phase is NodePhase.SUCCEEDED
    assert found.lingers
    status["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 137}}
    (found,) = see(pod(status))
    assert not found.lingers


def test_a_sidecar_that_its_kubelet_ends_is_left_to_it() -> None:
    ended = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
    sidecar = {"name": "side", "state": {"running": {}}}
    (found,) = see(pod({"phase": "Running", **ended, "initContainerStatuses": [sidecar]}))
    assert found.phase is NodePhase.SUCCEEDED
    assert not found.lingers


@pytest.mark.parametrize(
    ("finished", "cause"),
    [("03:04:04", ExitCause.COMPLETED), ("03:04:06", ExitCause.DELETED)],
)
def test_a_deletion_was_asked_for_its_grace_period_before_it_is_due(
    finished: str, cause: ExitCause
) -> None:
    state = {"terminated": {"exitCode": 0, "finishedAt": f"2026-01-02T{finished}Z"}}
    deleting = pod({"phase": "Succeeded", **container(state)})
    due = {"deletionTimestamp": "2026-01-02T03:04:35Z", "deletionGracePeriodSeconds": 30}
    deleting["metadata"].update(due)
    (found,) = see(deleting)
    assert classify(found.exit) is cause


def test_a_deletion_of_our_own_takes_nothing_from_a_program_that_ends_well() -> None:
    state = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-02T03:04:06Z"}}
    stopped = pod({"phase": "Succeeded", **container(state)})
    stopped["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    ask = NodeRequest(
        node=order().node, verb=RequestVerb.STOP, at=parse_time("2026-01-02T03:04:05Z")
    )
    (found,) = see(stopped, status=JobStatus(pending_requests=(ask,)))
    assert classify(found.exit) is ExitCause.COMPLETED


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
    (lost,) = see(running, machines=NodeStates({("", "node-a"): SILENT}))
    assert classify(lost.exit) is ExitCause.NODE_LOST
    (kept,) = see(
        running, machines=NodeStates({("", "node-a"): SILENT}), reachable=["digits-worker-7"]
    )
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
    refusal = RejectedPod(order().node, "Forbidden", "exceeded quota: compute")
    (found,) = see(refused={7: refusal})
    assert found.phase is NodePhase.PENDING
    assert "exceeded quota" in found.message


@pytest.mark.parametrize("outlook", list(Retryability))
def test_why_a_pod_was_refused_is_told_in_short(outlook: Retryability) -> None:
    refusal = RejectedPod(order().node, "Forbidden", "denied by a webhook " * 500, outlook)
    (found,) = see(refused={7: refusal})
    waits = outlook is not Retryability.OTHERWISE
    assert len(found.message if waits else found.exit.message) == 300
    assert not found.made


def test_a_pod_whose_name_somebody_else_has_was_never_started() -> None:
    refusal = RejectedPod(order().node, "NameTaken", "somebody else's", Retryability.OTHERWISE)
    (found,) = see(refused={7: refusal})
    assert classify(found.exit) is ExitCause.NEVER_STARTED


def test_a_pod_that_is_invalid_waits_for_another_manifest() -> None:
    refusal = RejectedPod(
        order().node, "InvalidSpec", "spec.containers[0].image: Required", Retryability.NEVER
    )
    (found,) = see(refused={7: refusal})
    assert (found.phase, found.reason) == (NodePhase.PENDING, "InvalidSpec")
    assert "image" in found.message


def test_a_pod_that_came_to_be_after_all_is_believed() -> None:
    refusal = RejectedPod(order().node, "NotTaken", "the API server is away")
    (found,) = see(pod({"phase": "Running"}), refused={7: refusal})
    assert found.phase is NodePhase.RUNNING


def test_an_earlier_job_of_the_same_name_owns_nothing_here() -> None:
    assert owned_by(UID, pod({}))
    assert not owned_by("another", pod({}))


def test_the_zero_time_of_a_container_that_never_ran_is_none() -> None:
    assert parse_time("0001-01-01T00:00:00Z") is None
    assert parse_time(None) is None


def test_a_terminated_container_without_a_reason_has_failed() -> None:
    facts = pod_facts(order().node, pod(container({"terminated": {"exitCode": 1}})))
    assert facts.terminated == "Error"


@pytest.mark.parametrize(("restarts", "failed"), [("Always", False), (None, True)])
def test_a_sidecar_that_is_started_again_in_place_does_not_speak_for_the_program(
    restarts: str | None, failed: bool
) -> None:
    made = pod({"phase": "Pending"})
    made["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": restarts}]
    ended = {"name": "proxy", "state": {"terminated": {"exitCode": 1}}}
    waiting = {"name": "node", "state": {"waiting": {"reason": "PodInitializing"}}}
    made["status"] |= {"initContainerStatuses": [ended], "containerStatuses": [waiting]}
    (found,) = see(made)
    assert (found.phase is NodePhase.FAILED) == failed
