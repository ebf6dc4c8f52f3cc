"""Discovery of a job's nodes on a cluster: hostnames, Services, a ConfigMap; and pods that take
over the name of the previous one."""

from __future__ import annotations

from typing import Any

import pytest

from resile.job.addresses import Addresses, decode_addresses
from resile.kube.errors import NotFound
from resile.kube.resources import (
    CONFIG_MAPS,
    ELASTIC_JOBS,
    PODS,
    SECRETS,
    SERVICES,
    KubeObject,
)
from resile.operator.build.labels import ID, JOB, MASTER, RANK, ROLE
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

pytestmark = pytest.mark.usefixtures("operator")

PS = {
    "kind": "Server",
    "command": ["serve"],
    "image": "some:1",
    "replicas": {"min": 1, "max": 3, "wanted": 2},
    "ports": {"rpc": 7000},
}
WORKER = {"command": ["work"], "image": "some:1", "replicas": 1, "dependsOn": ["ps"]}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


async def create(stage: Stage, **spec: Any) -> None:
    roles = {"ps": PS, "worker": WORKER}
    await stage.client.create(
        ELASTIC_JOBS, {"metadata": {"name": "ctr"}, "spec": {"roles": roles, **spec}}
    )


async def pod_of(stage: Stage, role: str, rank: int, *, id: int | None = None) -> KubeObject:
    async def look() -> KubeObject | None:
        for pod in await stage.pods("ctr"):
            labels = pod["metadata"]["labels"]
            running = (pod.get("status") or {}).get("phase") == "Running"
            sought = (role, str(rank), labels[ID] if id is None else str(id))
            if running and (labels[ROLE], labels[RANK], labels[ID]) == sought:
                return pod
        return None

    found = await eventually(look, f"a pod of {role} {rank} with id {id}")
    assert found is not None
    return found


async def make_ready(stage: Stage, *pods: KubeObject) -> None:
    for pod in pods:
        await stage.client.patch_status(PODS, pod["metadata"]["name"], status=READY)


async def addresses(stage: Stage) -> Addresses:
    found = await stage.client.get(CONFIG_MAPS, "ctr-addresses")
    return decode_addresses(found["data"]["addresses.json"])


async def services(stage: Stage) -> dict[str, KubeObject]:
    listed = await stage.client.list(
        SERVICES, namespace=stage.client.namespace, labels=f"{JOB}=ctr"
    )
    return {one["metadata"]["name"]: one for one in listed.items}


async def resize(stage: Stage, servers: int) -> None:
    body = {"spec": {"roles": {"ps": {"replicas": {"wanted": servers}}}}}
    await stage.client.patch(ELASTIC_JOBS, "ctr", body)


async def test_nodes_find_each_other_by_hostname_and_follow_a_file(
    stage: Stage, kubelets: StandIn
) -> None:
    await create(stage)
    first, second = await pod_of(stage, "ps", 0), await pod_of(stage, "ps", 1)
    assert first["spec"]["hostname"] == "ctr-ps-0"
    assert first["spec"]["subdomain"] == "ctr-nodes"
    main = first["spec"]["containers"][0]
    assert main["ports"] == [{"name": "rpc", "containerPort": 7000, "protocol": "TCP"}]
    assert main["readinessProbe"]["tcpSocket"] == {"port": 7000}
    known = await addresses(stage)
    domain = f"ctr-nodes.{stage.client.namespace}.svc"
    assert [one.host for one in known.of("ps")] == [f"ctr-ps-{rank}.{domain}" for rank in (0, 1)]
    assert [one.host for one in known.of("worker")] == [f"ctr-worker-0.{domain}"]
    env = {one["name"]: one.get("value", "") for one in main["env"]}
    assert decode_addresses(env["RESILE_ADDRESSES"]).roles == known.roles
    assert env["RESILE_HOST"] == f"ctr-ps-0.{domain}"
    assert env["RESILE_PORT_RPC"] == "7000"
    nodes = (await services(stage))["ctr-nodes"]
    assert {one["name"]: one["port"] for one in nodes["spec"]["ports"]} == {
        "rendezvous": 29400,
        "rpc": 7000,
    }
    assert set(await services(stage)) == {"ctr-master", "ctr-nodes"}
    await make_ready(stage, first, second)
    await pod_of(stage, "worker", 0)
    await resize(stage, 3)

    async def three() -> bool:
        return len((await addresses(stage)).of("ps")) == 3

    await eventually(three, "the third server in the file")
    assert (await addresses(stage)).of("ps")[:2] == known.of("ps")


async def test_workers_wait_until_a_server_is_ready(stage: Stage, kubelets: StandIn) -> None:
    await create(stage)
    first = await pod_of(stage, "ps", 0)

    async def waits() -> bool:
        nodes = (await stage.status("ctr")).get("nodes") or ()
        said = [one["message"] for one in nodes if one["role"] == "worker"]
        running = [one for one in nodes if one["phase"] == "Running"]
        return len(running) == 2 and said == ["waits for ps (0 of 1 ready)"]

    await eventually(waits, "the worker to wait for a server that answers")
    await make_ready(stage, first)
    await pod_of(stage, "worker", 0)
    nodes = (await stage.status("ctr"))["nodes"]
    assert [one.get("ready", False) for one in nodes if one["role"] == "ps"] == [True, False]


async def test_a_rank_has_a_service_for_as_long_as_it_is_part_of_the_job(
    stage: Stage, kubelets: StandIn
) -> None:
    await create(stage, names={"rankService": "{job}-{role}-{rank}"})
    await make_ready(stage, await pod_of(stage, "ps", 0), await pod_of(stage, "ps", 1))
    await pod_of(stage, "worker", 0)
    found = await services(stage)
    assert set(found) == {"ctr-master", "ctr-nodes", "ctr-ps-0", "ctr-ps-1", "ctr-worker-0"}
    spec = found["ctr-ps-1"]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    labels = (await pod_of(stage, "ps", 1))["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    kept = found["ctr-ps-1"]["metadata"]["uid"]
    await stage.client.delete(PODS, "ctr-ps-1")
    await pod_of(stage, "ps", 1, id=3)
    assert (await services(stage))["ctr-ps-1"]["metadata"]["uid"] == kept
    await resize(stage, 1)

    async def gone() -> bool:
        return "ctr-ps-1" not in await services(stage)

    await eventually(gone, "the Service of the rank that was scaled away to go")
    assert {"ctr-ps-0", "ctr-worker-0"} < set(await services(stage))


async def test_changed_ports_are_changed_in_services_and_in_the_file(
    stage: Stage, kubelets: StandIn
) -> None:
    await create(stage, names={"rankService": "{job}-{role}-{rank}"})
    await pod_of(stage, "ps", 1)
    body = {"spec": {"roles": {"ps": {"ports": {"rpc": 7001}}}}}
    await stage.client.patch(ELASTIC_JOBS, "ctr", body)

    async def changed() -> bool:
        found = await services(stage)
        listed = [{one["port"] for one in found[name]["spec"]["ports"]} for name in found]
        told = {one.ports["rpc"] for one in (await addresses(stage)).of("ps")}
        return told == {7001} and sum(7001 in ports for ports in listed) == 3

    await eventually(changed, "the new port everywhere")


@pytest.mark.parametrize("name", ["ctr-addresses", "ctr-ps-0"])
async def test_what_has_a_name_of_ours_is_left_alone_and_said(
    stage: Stage, kubelets: StandIn, name: str
) -> None:
    kind = CONFIG_MAPS if name == "ctr-addresses" else SERVICES
    spec = {"spec": {"clusterIP": "None"}} if kind is SERVICES else {}
    await stage.client.create(kind, {"metadata": {"name": name}, **spec})
    await create(stage, names={"rankService": "{job}-{role}-{rank}"})
    await stage.told("ctr", f"NoAddresses: the {kind.kind} {name} exists and does not belong")
    await pod_of(stage, "ps", 0)
    await stage.client.delete(kind, name)

    async def ours() -> bool:
        found = await stage.client.get(kind, name)
        return bool(found["metadata"].get("ownerReferences"))

    await eventually(ours, "ours in its place")


async def test_a_replacement_takes_over_the_name_of_a_pod_that_has_ended(
    stage: Stage, kubelets: StandIn
) -> None:
    await create(stage, names={"node": "{job}-{role}-replica-{rank}"})
    first = await pod_of(stage, "ps", 0)
    await pod_of(stage, "ps", 1)
    assert first["metadata"]["name"] == "ctr-ps-replica-0"
    await kubelets.end(first, 1)
    new = await pod_of(stage, "ps", 0, id=2)
    assert new["metadata"]["name"] == "ctr-ps-replica-0"
    assert new["metadata"]["uid"] != first["metadata"]["uid"]
    assert new["spec"]["hostname"] == "ctr-ps-0"
    await stage.client.delete(PODS, "ctr-ps-replica-0")
    again = await pod_of(stage, "ps", 0, id=3)
    assert again["metadata"]["name"] == "ctr-ps-replica-0"
    status = await stage.status("ctr")
    assert [one["id"] for one in status["nodes"] if one["role"] == "ps"] == [3, 1]


async def test_a_pod_that_somebody_holds_back_is_waited_for_and_then_its_name_is_taken_over(
    stage: Stage, kubelets: StandIn
) -> None:
    await create(stage, names={"node": "{job}-{role}-{rank}"})
    first = await pod_of(stage, "ps", 0)
    held = {"metadata": {"finalizers": ["resile.dev/test"]}}
    await stage.client.patch(PODS, "ctr-ps-0", held)
    await kubelets.end(first, 1)

    async def waits() -> bool:
        found = await stage.client.get(PODS, "ctr-ps-0")
        nodes = (await stage.status("ctr"))["nodes"]
        said = next(one.get("message", "") for one in nodes if one["role"] == "ps")
        return "deletionTimestamp" in found["metadata"] and "has to be deleted first" in said

    await eventually(waits, "the operator to wait for the name")
    await stage.let_go("ctr-ps-0")
    await pod_of(stage, "ps", 0, id=2)


async def test_somebody_elses_pod_under_a_name_without_a_number_is_waited_for(
    stage: Stage, kubelets: StandIn
) -> None:
    spec = {"containers": [{"name": "a", "image": "b"}]}
    await stage.client.create(PODS, {"metadata": {"name": "ctr-ps-0"}, "spec": spec})
    await create(stage, names={"node": "{job}-{role}-{rank}"})
    await pod_of(stage, "ps", 1)

    async def waits() -> bool:
        nodes = (await stage.status("ctr"))["nodes"]
        rank = next(one for one in nodes if one["role"] == "ps")
        said = (
            rank.get("message", "")
            == "the name ctr-ps-0 is taken by a pod that does not belong to this job"
        )
        return said and rank["id"] == 0

    await eventually(waits, "the operator to say so, and to keep to the id")
    await stage.client.delete(PODS, "ctr-ps-0", grace_seconds=0)
    await pod_of(stage, "ps", 0, id=0)


async def test_patterns_name_everything_that_is_made(
    stage: Stage, kubelets: StandIn, operator: OperatorProcess
) -> None:
    names = {
        "node": "{job}-edljob-{role}-{serial}",
        "hostname": "{role}{rank}-{job}",
        "master": "elasticjob-{job}-master-{serial}",
        "masterService": "{job}-boss",
        "nodesService": "{job}-all",
        "token": "{job}-secret",
    }
    await create(stage, names=names)
    first = await pod_of(stage, "ps", 0)
    assert first["metadata"]["name"] == "ctr-edljob-ps-0"
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("ps0-ctr", "ctr-all")
    env = {one["name"]: one for one in first["spec"]["containers"][0]["env"]}
    assert env["RESILE_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "ctr-secret"
    assert "ctr-boss." in env["PET_RDZV_ENDPOINT"]["value"]
    assert env["RESILE_HOST"]["value"] == f"ps0-ctr.ctr-all.{stage.client.namespace}.svc"
    (master,) = await stage.pods("ctr", MASTER)
    assert master["metadata"]["name"] == "elasticjob-ctr-master-0"
    assert set(await services(stage)) == {"ctr-boss", "ctr-all"}
    await stage.client.get(SECRETS, "ctr-secret")
    with pytest.raises(NotFound):
        await stage.client.get(SECRETS, "ctr-token")
    await stage.client.delete(PODS, "ctr-edljob-ps-0")
    new = await pod_of(stage, "ps", 0, id=2)
    assert new["metadata"]["name"] == "ctr-edljob-ps-2"
    assert "Traceback" not in operator.text()
