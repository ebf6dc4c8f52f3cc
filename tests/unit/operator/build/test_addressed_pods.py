"""Pods and Services of a job whose roles have ports, and those of one whose roles have none."""

from __future__ import annotations

from typing import Any

import pytest

from resile.client.cluster.preview import preview
from resile.job.addresses import cluster_addresses, decode_addresses
from resile.job.manifest.parse import job_from_data
from resile.job.manifest.pod_checks import kubernetes_problems
from resile.job.node import Node
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.operator.build import master as made
from resile.operator.build.pods import build_node_pod
from tests.unit.operator.build.jobs import UID, order

PS = {
    "kind": "Server",
    "command": ["serve"],
    "image": "some",
    "ports": {"rpc": 7000, "metrics": 9000},
    "replicas": 2,
}
WORKER = {"command": ["work"], "image": "some", "dependsOn": ["ps"]}


def job(*, names: dict[str, str] | None = None, **roles: Any) -> ElasticJob:
    spec: dict[str, Any] = {"roles": roles or {"ps": PS, "worker": WORKER}, "names": names or {}}
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "ctr", "namespace": "ml"},
            "spec": spec,
        }
    )


def pod(elastic: ElasticJob, role: str = "ps") -> dict[str, Any]:
    asked = order(
        node=Node(role=role, rank=1, id=7, name=f"ctr-{role}-7"),
        ports=elastic.spec.roles[role].ports,
    )
    addresses = cluster_addresses(elastic, JobStatus())
    return build_node_pod(elastic, asked, uid=UID, environment=[], addresses=addresses)


def main(made_pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = made_pod["spec"]["containers"][0]
    return container


def test_a_server_declares_its_ports_and_is_probed_at_the_first() -> None:
    container = main(pod(job()))
    assert container["ports"] == [
        {"name": "rpc", "containerPort": 7000},
        {"name": "metrics", "containerPort": 9000},
    ]
    assert container["readinessProbe"] == {"tcpSocket": {"port": 7000}, "periodSeconds": 1}


def test_ports_and_a_probe_of_the_template_stay() -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8080}}
    others = [{"name": "http", "containerPort": 8080}, {"name": "old", "containerPort": 7000}]
    template = {"spec": {"containers": [{"ports": others, "readinessProbe": probe}]}}
    container = main(pod(job(ps={**PS, "template": template})))
    assert [one["name"] for one in container["ports"]] == ["http", "rpc", "metrics"]
    assert container["readinessProbe"] == probe


def test_who_does_not_serve_is_not_probed() -> None:
    container = main(pod(job(ps={**PS, "kind": "Independent"})))
    assert "readinessProbe" not in container
    assert len(container["ports"]) == 2


def test_all_nodes_have_the_addresses_in_their_environment_and_in_a_file() -> None:
    elastic = job()
    worker = pod(elastic, "worker")
    env = {one["name"]: one["value"] for one in main(worker)["env"]}
    told = decode_addresses(env["RESILE_ADDRESSES"])
    assert told.roles == cluster_addresses(elastic, JobStatus()).roles
    assert env["RESILE_ADDRESSES_FILE"] == "/etc/resile/addresses/addresses.json"
    mount = next(m for m in main(worker)["volumeMounts"] if m["name"] == "resile-addresses")
    assert mount["mountPath"] == "/etc/resile/addresses"
    assert "subPath" not in mount
    volume = next(v for v in worker["spec"]["volumes"] if v["name"] == "resile-addresses")
    assert volume["configMap"] == {"name": "ctr-addresses", "optional": True}
    server = {one["name"]: one["value"] for one in main(pod(elastic))["env"]}
    assert server["RESILE_PORT_RPC"] == "7000"
    assert server["RESILE_HOST"] == "ctr-ps-1.ctr-nodes.ml.svc"


def test_the_config_map_holds_the_file() -> None:
    addresses = cluster_addresses(job(), JobStatus())
    found = made.build_addresses_map(job(), addresses, uid=UID)
    assert found["metadata"]["name"] == "ctr-addresses"
    assert decode_addresses(found["data"]["addresses.json"]) == addresses


def test_the_service_of_the_nodes_has_each_port_and_each_name_once() -> None:
    other = {**WORKER, "ports": {"rpc": 7001, "again": 9000}}
    ports = made.build_nodes_service(job(ps=PS, worker=other), uid=UID)["spec"]["ports"]
    assert {one["name"]: one["port"] for one in ports} == {
        "rendezvous": 29400,
        "rpc": 7000,
        "metrics": 9000,
        "rpc-7001": 7001,
    }


def test_the_service_of_a_rank_selects_its_pod_also_before_it_is_ready() -> None:
    elastic = job()
    service = made.build_rank_service(elastic, name="ctr-ps-1", role="ps", rank=1, uid=UID)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= pod(elastic)["metadata"]["labels"].items()
    assert [one["port"] for one in service["spec"]["ports"]] == [7000, 9000]


def test_a_volume_with_the_name_of_ours_is_refused() -> None:
    taken = job(ps={**PS, "volumes": [{"name": "resile-addresses", "emptyDir": {}}]})
    (problem,) = kubernetes_problems(taken)
    assert "choose another name" in str(problem)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{"ports": 5}]}, "containers[0].ports"),
        ({"containers": [{"ports": [{"name": ["a"]}]}]}, "containers[0].ports[0].name"),
        ({"hostname": 5}, "hostname"),
        ({"subdomain": {}}, "subdomain"),
    ],
)
def test_a_template_that_ports_or_hosts_cannot_be_put_into_is_refused(
    spec: dict[str, Any], path: str
) -> None:
    (problem,) = kubernetes_problems(job(ps={**PS, "template": {"spec": spec}}))
    assert problem.path == f"spec.roles.ps.template.spec.{path}"


def test_what_a_template_leaves_empty_is_filled_in() -> None:
    empty = {"hostname": None, "subdomain": None, "containers": [{"readinessProbe": None}]}
    filled = pod(job(ps={**PS, "template": {"spec": empty}}))
    assert (filled["spec"]["hostname"], filled["spec"]["subdomain"]) == ("ctr-ps-1", "ctr-nodes")
    assert main(filled)["readinessProbe"]["tcpSocket"] == {"port": 7000}


def test_a_dry_run_shows_all_of_it() -> None:
    shown = preview(job(names={"rankService": "{job}-{role}-{rank}"}))
    kinds = [(one["kind"], one["metadata"]["name"]) for one in shown]
    assert ("ConfigMap", "ctr-addresses") in kinds
    assert [name for kind, name in kinds if kind == "Service"] == [
        *("ctr-master", "ctr-nodes"),
        *("ctr-ps-0", "ctr-ps-1", "ctr-worker-0"),
    ]
    assert ("Pod", "ctr-worker-0") in kinds, "it waits for servers that are ready"


def test_pods_of_a_job_without_ports_are_as_they_were() -> None:
    plain = job(worker={"command": ["work"], "image": "some"})
    shown = preview(plain)
    assert "ConfigMap" not in {one["kind"] for one in shown}
    worker = shown[-1]
    assert "ports" not in main(worker)
    assert not [one for one in main(worker)["env"] if "ADDRESSES" in one["name"]]
    assert [one["name"] for one in worker["spec"]["volumes"]] == ["shared-memory"]
