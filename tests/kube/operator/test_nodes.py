"""Pods that end in various ways, and the operator's reaction."""

from __future__ import annotations

from typing import Any

import pytest

from resile.kube.resources import ELASTIC_JOBS, EVENTS, PODS, KubeObject, Resource
from resile.operator.build.labels import ID, MASTER, RANK
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

pytestmark = pytest.mark.usefixtures("operator")

LIMIT_RANGES = Resource("", "v1", "LimitRange", "limitranges")
FOUR = {"replicas": {"min": 2, "max": 4}}


def rank_of(pod: KubeObject) -> int:
    return int(pod["metadata"]["labels"][RANK])


async def running_job(stage: Stage, role: dict[str, Any], **spec: Any) -> list[KubeObject]:
    """Start a job and return its pods, once all run and the operator has seen it."""
    size = role["replicas"]
    count = size if isinstance(size, int) else size["max"]
    await stage.create("digits", role, **spec)
    await stage.has_nodes("digits", count)

    async def all_run() -> bool:
        status = await stage.status("digits")
        return status.get("ready") == f"{count}/{count}"

    await eventually(all_run, "all nodes to run")
    return sorted(await stage.pods("digits"), key=rank_of)


async def replaced(stage: Stage, rank: int, *, id: int) -> KubeObject:
    """The pod that has a rank under another id."""

    async def look() -> KubeObject | None:
        for pod in await stage.pods("digits"):
            labels = pod["metadata"]["labels"]
            if int(labels[RANK]) == rank and int(labels[ID]) == id:
                return pod
        return None

    found = await eventually(look, f"rank {rank} to have node {id}")
    assert found is not None
    return found


async def test_a_job_gets_its_master_its_services_and_its_nodes(
    stage: Stage, kubelets: StandIn
) -> None:
    pods = await running_job(stage, FOUR)
    assert [pod["metadata"]["name"] for pod in pods] == [f"digits-worker-{n}" for n in range(4)]
    (master,) = await stage.pods("digits", MASTER)
    assert master["metadata"]["name"] == "digits-master-0"
    status = await stage.has_phase("digits", "Running")
    assert status["replicas"] == 4
    assert status["selector"] == "resile.dev/job=digits,resile.dev/role=worker"
    env = {one["name"]: one for one in pods[0]["spec"]["containers"][0]["env"]}
    assert env["PET_RDZV_ENDPOINT"]["value"].startswith("digits-master.")
    assert env["RESILE_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "digits-token"


async def test_a_deleted_pod_is_replaced_with_the_next_id_and_the_same_rank(
    stage: Stage, kubelets: StandIn
) -> None:
    pods = await running_job(stage, FOUR)
    await stage.client.delete(PODS, "digits-worker-2")
    new = await replaced(stage, 2, id=4)
    assert new["metadata"]["name"] == "digits-worker-4"
    others = {pod["metadata"]["uid"] for pod in pods if rank_of(pod) != 2}
    now = {pod["metadata"]["uid"] for pod in await stage.pods("digits")}
    assert others < now


async def test_a_pod_of_which_the_scheduler_says_so_was_preempted(
    stage: Stage, kubelets: StandIn
) -> None:
    pods = await running_job(stage, FOUR)
    about = pods[1]["metadata"]
    pod = {key: about[key] for key in ("name", "namespace", "uid")}
    event = {
        "metadata": {"name": "preemption"},
        "involvedObject": {"kind": "Pod", **pod},
        "reason": "Preempted",
        "message": "Preempted by default/urgent on node node-a",
    }
    await stage.client.create(EVENTS, event)
    await stage.delete_slowly(about["name"])
    await replaced(stage, 1, id=4)
    await stage.told("digits", "digits-worker-1 (rank 1) was preempted")
    await stage.let_go(about["name"])


async def test_a_pod_of_somebody_else_that_has_a_nodes_name_is_left_alone(
    stage: Stage, kubelets: StandIn
) -> None:
    container = {"name": "main", "image": "mine:1"}
    pod = {"metadata": {"name": "digits-worker-0"}, "spec": {"containers": [container]}}
    mine = await stage.client.create(PODS, pod)
    await stage.create("digits", {"replicas": {"min": 1, "max": 2}})
    await replaced(stage, 0, id=2)
    await stage.told("digits", "is taken by a pod that does not belong to this job; requested")
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": True}})
    await stage.has_phase("digits", "Suspended")
    await stage.client.delete(ELASTIC_JOBS, "digits")
    still = await stage.client.get(PODS, "digits-worker-0")
    assert still["metadata"]["uid"] == mine["metadata"]["uid"]
    assert "deletionTimestamp" not in still["metadata"]


async def test_a_job_that_another_controller_looks_after_is_not_even_judged(
    stage: Stage, kubelets: StandIn
) -> None:
    await stage.create("theirs", {"replicas": {"min": 3, "max": 2}}, managedBy="other.io/one")
    await stage.create("broken", {"replicas": {"min": 3, "max": 2}})
    await stage.condition("broken", "Created", "InvalidSpec")
    assert await stage.status("theirs") == {}


async def test_a_node_that_ran_out_of_memory_gets_twice_as_much(
    stage: Stage, kubelets: StandIn
) -> None:
    role = {"replicas": 1, "resources": {"limits": {"memory": "4Gi"}}}
    (pod,) = await running_job(stage, role)
    await kubelets.end(pod, 137, "OOMKilled")
    new = await replaced(stage, 0, id=1)
    assert new["spec"]["containers"][0]["resources"]["limits"]["memory"] == "8Gi"
    await stage.told("digits", "ran out of 4Gi of memory; relaunched with 8Gi")


async def test_nodes_that_complete_end_the_job_and_its_master(
    stage: Stage, kubelets: StandIn
) -> None:
    for pod in await running_job(stage, {"replicas": 2}):
        await kubelets.end(pod, 0, "Completed")
    await stage.has_phase("digits", "Succeeded")
    await stage.condition("digits", "Succeeded", "2 worker nodes completed")

    async def no_master() -> bool:
        return not await stage.pods("digits", MASTER)

    await eventually(no_master, "the master to be gone")
    assert len(await stage.pods("digits")) == 2, "their logs can still be read"


async def test_a_sidecar_that_outlives_its_program_is_stopped(
    stage: Stage, kubelets: StandIn
) -> None:
    containers = [{"name": "train"}, {"name": "sidecar", "image": "side:test"}]
    role = {"replicas": 2, "template": {"spec": {"containers": containers}}}
    pods = await running_job(stage, role)
    await kubelets.end(pods[0], 0, "Completed", beside=["sidecar"])
    (left,) = await stage.has_nodes("digits", 1)
    assert left["metadata"]["name"] == pods[1]["metadata"]["name"]
    await kubelets.end(pods[1], 0, "Completed", beside=["sidecar"])
    await stage.has_phase("digits", "Succeeded")
    await stage.has_nodes("digits", 0)


async def test_what_is_over_is_cleaned_up_as_the_manifest_says(
    stage: Stage, kubelets: StandIn
) -> None:
    for pod in await running_job(stage, {"replicas": 2}, cleanPodPolicy="All"):
        await kubelets.end(pod, 0, "Completed")
    await stage.has_phase("digits", "Succeeded")
    await stage.has_nodes("digits", 0)


async def test_a_finished_job_is_deleted_when_its_time_is_over(
    stage: Stage, kubelets: StandIn
) -> None:
    (pod,) = await running_job(stage, {"replicas": 1}, ttlSecondsAfterFinished=1)
    await kubelets.end(pod, 0, "Completed")

    async def gone() -> bool:
        return not (await stage.client.list(ELASTIC_JOBS, namespace=stage.client.namespace)).items

    await eventually(gone, "the job to be deleted")


async def test_a_command_that_cannot_run_fails_the_job_and_says_why(
    stage: Stage, kubelets: StandIn
) -> None:
    (pod,) = await running_job(stage, {"replicas": 1})
    await kubelets.end(pod, 128, "StartError")
    await stage.has_phase("digits", "Failed")
    await stage.condition("digits", "Failed", "could not run its command")


async def test_a_pod_that_has_no_room_is_shown_and_the_others_run(
    stage: Stage, kubelets: StandIn
) -> None:
    kubelets.held.add("digits-worker-3")
    await stage.create("digits", FOUR)
    await stage.has_nodes("digits", 4)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [{**condition, "message": "Insufficient cpu"}]}
    await stage.client.patch_status(PODS, "digits-worker-3", status=status)
    await stage.condition("digits", "Running", "3 of 4 nodes are running; worker rank 3 is pending")
    await stage.condition("digits", "Running", "Insufficient cpu")


async def test_a_master_that_is_deleted_is_replaced(stage: Stage, kubelets: StandIn) -> None:
    await running_job(stage, {"replicas": 1})
    (old,) = await stage.pods("digits", MASTER)
    await stage.client.delete(PODS, old["metadata"]["name"])

    async def another() -> bool:
        masters = await stage.pods("digits", MASTER)
        return [one["metadata"]["uid"] for one in masters] not in ([], [old["metadata"]["uid"]])

    await eventually(another, "another master")


async def test_events_tell_the_story_on_the_job_and_on_the_pod(
    stage: Stage, kubelets: StandIn
) -> None:
    pods = await running_job(stage, {"replicas": 2})
    await kubelets.end(pods[1], 3)
    await replaced(stage, 1, id=2)

    words = "digits-worker-1 (rank 1) exited with code 3; relaunched, budget spent"
    await stage.told("digits", words)
    await stage.told("digits-worker-1", words)


async def test_a_manifest_that_only_we_can_judge_is_refused_by_a_condition(
    stage: Stage, operator: OperatorProcess
) -> None:
    await stage.create("digits", {"replicas": {"min": 3, "max": 2}})
    await stage.condition("digits", "Created", "InvalidSpec")
    refused = await stage.condition("digits", "Created", "min")
    assert refused["status"] == "False"
    body = {"spec": {"roles": {"worker": {"replicas": {"min": 1, "max": 2}}}}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body)
    await stage.has_nodes("digits", 2)
    assert "Traceback" not in operator.text()


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        (
            {"image": " train:test"},
            {"image": "train:test"},
            "spec.roles.worker: the API server rejects its pods",
        ),
        (
            {"template": {"spec": {"hostAliases": 7}}},
            {"template": None},
            "spec.roles.worker: the API server rejects its pods",
        ),
    ],
    ids=["invalid", "unreadable"],
)
async def test_a_pod_that_the_api_server_cannot_take_is_an_invalid_spec(
    stage: Stage,
    operator: OperatorProcess,
    kubelets: StandIn,
    wrong: dict[str, Any],
    right: dict[str, Any],
    says: str,
) -> None:
    await stage.create("digits", {"replicas": 2, **wrong})
    refused = await stage.condition("digits", "Created", says)
    assert (refused["status"], refused["reason"]) == ("False", "InvalidSpec")
    await stage.told("digits", "InvalidSpec")
    assert (await stage.status("digits"))["phase"] == "Pending"
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"roles": {"worker": right}}})
    await stage.has_nodes("digits", 2)
    await stage.condition("digits", "Created", "JobCreated")
    assert "Traceback" not in operator.text()


async def test_a_master_that_the_api_server_cannot_take_is_an_invalid_spec(
    stage: Stage, operator: OperatorProcess, kubelets: StandIn
) -> None:
    template = {"spec": {"dnsPolicy": "Whatever"}}
    await stage.create("digits", {"replicas": 1}, master={"template": template})
    refused = await stage.condition("digits", "Created", "spec.master: the API server rejects")
    assert (refused["status"], refused["reason"]) == ("False", "InvalidSpec")
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"master": None}})
    await stage.condition("digits", "Created", "JobCreated")
    await stage.has_phase("digits", "Running")
    assert "Traceback" not in operator.text()


async def test_a_node_that_was_refused_is_offered_as_the_manifest_is_now(
    stage: Stage, kubelets: StandIn
) -> None:
    limit = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    await stage.client.create(LIMIT_RANGES, {"metadata": {"name": "small"}, "spec": limit})
    much = {"limits": {"memory": "100Gi"}}
    await stage.create("digits", {"replicas": 1, "resources": much})
    await stage.condition("digits", "Running", "maximum memory usage per Container is 1Gi")
    less = {"spec": {"roles": {"worker": {"resources": {"limits": {"memory": "1Gi"}}}}}}
    await stage.client.patch(ELASTIC_JOBS, "digits", less)
    (pod,) = await stage.has_nodes("digits", 1)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1Gi"
