"""The objects of a job on a cluster besides its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from resile.job.spec.job import ElasticJob
from resile.operator.build import master as made
from resile.operator.build.labels import main_container_of, node_of
from resile.operator.build.master import node_variables
from resile.wire.endpoint import parse_endpoint
from tests.unit.operator.build.jobs import UID, job


def main(elastic: ElasticJob) -> dict[str, Any]:
    pod = made.build_master_pod(elastic, uid=UID, image="resile:1", serial=0, tls=True)
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_the_master_asks_nothing_of_the_cluster_and_has_no_privileges() -> None:
    pod = made.build_master_pod(job(), uid=UID, image="resile:1", serial=0, tls=True)
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    security = pod["spec"]["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert node_of(pod) is None


def test_the_master_is_told_how_elastic_the_job_is() -> None:
    command = main(job())["command"]
    assert command[command.index("--nnodes") + 1] == "1:4"
    assert command[command.index("--job") + 1] == "digits"


def test_a_claim_of_the_users_holds_the_masters_store() -> None:
    elastic = job(master={"storage": {"claim": "keep"}, "image": "mine:2"})
    pod = made.build_master_pod(elastic, uid=UID, image="resile:1", serial=3, tls=True)
    store = next(v for v in pod["spec"]["volumes"] if v["name"] == "store")
    assert store["persistentVolumeClaim"] == {"claimName": "keep"}
    assert pod["spec"]["containers"][0]["image"] == "mine:2"
    assert pod["metadata"]["name"] == "digits-master-3"


@pytest.mark.parametrize(
    ("told", "templates", "used"),
    [
        ("mine:2", "template:3", "mine:2"),
        (None, "template:3", "template:3"),
        ("mine:2", None, "mine:2"),
        (None, None, "resile:1"),
    ],
)
def test_the_masters_image_is_the_manifests_before_the_templates_before_the_operators(
    told: str | None, templates: str | None, used: str
) -> None:
    template = {"spec": {"containers": [{"image": templates}]}}
    elastic = job(master={"template": template} | ({"image": told} if told else {}))
    assert main(elastic)["image"] == used


def test_the_masters_resources_are_those_of_manifest_and_template_together() -> None:
    written = {"limits": {"cpu": 1, "memory": "1Gi"}}
    template = {"spec": {"containers": [{"resources": written}]}}
    told = {"limits": {"memory": "2Gi"}}
    resources = main(job(master={"template": template, "resources": told}))["resources"]
    assert resources["limits"] == {"cpu": 1, "memory": "2Gi"}


def test_the_masters_container_is_known_by_its_name() -> None:
    template = {"spec": {"containers": [{"name": "boss"}, {"name": "sidecar"}]}}
    elastic = job(master={"template": template})
    pod = made.build_master_pod(elastic, uid=UID, image="resile:1", serial=0, tls=True)
    assert main_container_of(pod) == "boss"


def test_the_master_listens_at_every_address() -> None:
    command = main(job())["command"]
    where = parse_endpoint(command[command.index("--endpoint") + 1])
    assert where.listening_host is None


def test_agents_find_the_master_by_the_name_of_its_service() -> None:
    service = made.build_master_service(job(), uid=UID)
    pod = made.build_master_pod(job(), uid=UID, image="resile:1", serial=0, tls=True)
    assert str(made.master_endpoint(job())) == "digits-master.ml.svc:29400"
    assert service["metadata"]["name"] == "digits-master"
    selected = service["spec"]["selector"].items()
    assert selected <= pod["metadata"]["labels"].items()


def test_a_role_named_master_keeps_its_names() -> None:
    elastic = job()
    roles = {"master": elastic.spec.roles["worker"]}
    from msgspec.structs import replace

    renamed = replace(elastic, spec=replace(elastic.spec, roles=roles))
    pod = made.build_master_pod(renamed, uid=UID, image="resile:1", serial=0, tls=True)
    assert pod["metadata"]["name"] == "digits-coordinator-0"


def test_a_master_without_memory_is_told_how_far_the_job_had_come() -> None:
    def told(after_round: int) -> dict[str, str]:
        pod = made.build_master_pod(
            job(), uid=UID, image="r:1", serial=1, tls=True, after_round=after_round
        )
        env = pod["spec"]["containers"][0]["env"]
        return {one["name"]: one["value"] for one in env if "value" in one}

    assert told(7)["RESILE_AFTER_ROUND"] == "7"
    assert "RESILE_AFTER_ROUND" not in told(0)


def test_only_the_master_is_given_its_key() -> None:
    elastic = job()
    pod = made.build_master_pod(elastic, uid=UID, image="resile:1", serial=0, tls=True)
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "tls")
    assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]
    container = pod["spec"]["containers"][0]
    assert container["command"][-4:] == [
        *("--tls-cert", "/etc/resile/tls/tls.crt", "--tls-key", "/etc/resile/tls/tls.key")
    ]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    keys = [
        variable["valueFrom"]["secretKeyRef"]["key"]
        for variables in node_variables(elastic).values()
        for variable in variables
        if "valueFrom" in variable
    ]
    assert set(keys) == {"token", "ca.crt"}


def test_a_master_without_a_certificate_serves_plainly() -> None:
    pod = made.build_master_pod(job(), uid=UID, image="resile:1", serial=0, tls=False)
    assert "tls" not in {volume["name"] for volume in pod["spec"]["volumes"]}
    assert "--tls-cert" not in pod["spec"]["containers"][0]["command"]


def test_the_certificate_has_the_name_by_which_agents_find_the_master() -> None:
    assert made.master_endpoint(job()).host in made.master_hosts(job())
