"""The resources of a job besides its nodes: name conflicts, rejected requests, deleted objects;
and the events about them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from resile.kube.resources import (
    ELASTIC_JOBS,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    KubeObject,
)
from resile.operator.build.labels import MASTER
from tests.kube.apiserver import ApiServer
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

pytestmark = pytest.mark.usefixtures("operator")

TWO = {"replicas": {"min": 1, "max": 2}}


async def master_of(stage: Stage, name: str = "digits") -> KubeObject:
    async def look() -> KubeObject | None:
        found = await stage.pods(name, MASTER)
        return found[0] if len(found) == 1 else None

    found = await eventually(look, "one master")
    assert found is not None
    return found


async def without_trouble(stage: Stage) -> None:
    async def look() -> bool:
        conditions = (await stage.status("digits")).get("conditions") or ()
        return any(one["type"] == "MasterReady" and one["status"] == "True" for one in conditions)

    await stage.has_phase("digits", "Running")
    await eventually(look, "the trouble to be over")


async def test_a_master_that_the_cluster_refuses_is_told_and_tried_again(
    stage: Stage, kubelets: StandIn
) -> None:
    urgent = f"urgent-{stage.client.namespace}"
    await stage.create("digits", TWO, master={"priorityClass": urgent})
    said = await stage.condition("digits", "MasterReady", "MasterUnavailable")
    assert urgent in said["message"]
    assert said["status"] == "False"
    running = await stage.condition("digits", "Running", "")
    assert running["status"] == "False", "nodes that have not begun cannot without a master"
    await stage.told("digits", 'NoMaster: pods "digits-master-0" is forbidden: no PriorityClass')
    await stage.client.create(PRIORITY_CLASSES, {"metadata": {"name": urgent}, "value": 7})
    await master_of(stage)
    await without_trouble(stage)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    }
                ]
            },
            "digits-master-0: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "master",
                        "image": "",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 4,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {
                            "terminated": {"exitCode": 1, "message": "Error: no space left"}
                        },
                    }
                ]
            },
            "it exited with code 1: Error: no space left",
        ),
    ],
    ids=["no room", "keeps crashing"],
)
async def test_what_keeps_the_master_from_working_is_told(
    stage: Stage, kubelets: StandIn, status: dict[str, Any], says: str
) -> None:
    kubelets.held.add("digits-master-0")
    await stage.create("digits", TWO)
    await master_of(stage)
    await stage.client.patch_status(PODS, "digits-master-0", status=status)
    said = await stage.condition("digits", "MasterReady", "MasterUnavailable")
    assert says in said["message"]


async def test_a_pod_of_somebody_else_that_has_the_masters_name_is_passed_by(
    stage: Stage, kubelets: StandIn
) -> None:
    container = {"name": "main", "image": "mine:1"}
    pod = {"metadata": {"name": "digits-master-0"}, "spec": {"containers": [container]}}
    mine = await stage.client.create(PODS, pod)
    await stage.create("digits", TWO)
    assert (await master_of(stage))["metadata"]["name"] == "digits-master-1"
    still = await stage.client.get(PODS, "digits-master-0")
    assert still["metadata"]["uid"] == mine["metadata"]["uid"]


async def test_a_service_of_somebody_else_is_left_alone_and_told(
    stage: Stage, kubelets: StandIn
) -> None:
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
    await stage.client.create(SERVICES, {"metadata": {"name": "digits-master"}, "spec": spec})
    await stage.create("digits", TWO)
    await stage.condition(
        "digits", "MasterReady", "the Service digits-master exists and does not belong to this job"
    )
    theirs = await stage.client.get(SERVICES, "digits-master")
    assert theirs["spec"]["selector"] == {"app": "theirs"}
    await stage.client.delete(SERVICES, "digits-master")
    await without_trouble(stage)
    ours = await stage.client.get(SERVICES, "digits-master")
    assert ours["metadata"]["ownerReferences"][0]["name"] == "digits"


async def test_a_token_that_somebody_deleted_is_the_same_when_a_pod_needs_it(
    stage: Stage, kubelets: StandIn
) -> None:
    await stage.create("digits", TWO)
    await master_of(stage)
    before = await stage.client.get(SECRETS, "digits-token")
    await stage.client.delete(SECRETS, "digits-token")
    await stage.client.delete(PODS, "digits-master-0", grace_seconds=0)
    await eventually(
        lambda: stage.client.get(SECRETS, "digits-token"), "the token to be there again"
    )
    after = await stage.client.get(SECRETS, "digits-token")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"] == before["data"], "pods that run have it"


async def test_a_secret_without_a_token_is_told(stage: Stage, kubelets: StandIn) -> None:
    created = await stage.create("digits", TWO, suspend=True)
    owner = {key: created["metadata"][key] for key in ("name", "uid")}
    reference = {"apiVersion": created["apiVersion"], "kind": created["kind"], **owner}
    metadata = {"name": "digits-token", "ownerReferences": [reference]}
    await stage.client.create(SECRETS, {"metadata": metadata})
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": False}})
    await stage.condition(
        "digits",
        "MasterReady",
        "the Secret digits-token cannot be used: it has no token; delete it",
    )
    await stage.client.delete(SECRETS, "digits-token")
    await without_trouble(stage)


async def test_a_job_made_anew_under_a_name_waits_until_what_the_first_one_had_is_gone(
    stage: Stage, kubelets: StandIn
) -> None:
    await stage.create("digits", TWO)
    await stage.has_phase("digits", "Running")
    first = await stage.client.get(SECRETS, "digits-token")
    await stage.client.delete(ELASTIC_JOBS, "digits")
    await stage.create("digits", TWO)
    # There is no garbage collector here: on a cluster it takes a moment.
    await stage.condition("digits", "MasterReady", "does not belong to this job")
    for kind, name in (
        (SERVICES, "digits-master"),
        (SERVICES, "digits-nodes"),
        (SECRETS, "digits-token"),
    ):
        await stage.client.delete(kind, name)

    async def another() -> bool:
        return (await stage.client.get(SECRETS, "digits-token"))["data"] != first["data"]

    await eventually(another, "a token of the new job's own")


async def test_a_token_that_nobody_knows_any_more_is_not_replaced_under_pods_that_run(
    stage: Stage, server: ApiServer, kubelets: StandIn, operator: OperatorProcess, tmp_path: Path
) -> None:
    await stage.create("digits", TWO)
    await stage.has_phase("digits", "Running")
    operator.end(signal.SIGKILL)
    await stage.client.delete(SECRETS, "digits-token")
    with operating(server.kubeconfig(), tmp_path, "--no-elect", "-n", stage.client.namespace):
        await stage.condition("digits", "MasterReady", "suspend the job and resume it")
        for suspend in (True, False):
            await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": suspend}})
            await stage.has_phase("digits", "Suspended" if suspend else "Running")
        await without_trouble(stage)
    await stage.client.get(SECRETS, "digits-token")
