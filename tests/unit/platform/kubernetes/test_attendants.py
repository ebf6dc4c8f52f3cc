"""What a job has on a cluster beside its nodes."""

from __future__ import annotations

from resile.platform.kubernetes import attendants as made
from resile.platform.kubernetes.labels import node_of

from .jobs import UID, job


def test_the_master_asks_nothing_of_the_cluster_and_has_no_privileges() -> None:
    pod = made.master_pod(job(), uid=UID, image="resile:1", serial=0)
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    security = pod["spec"]["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert node_of(pod) is None


def test_the_master_is_told_how_elastic_the_job_is() -> None:
    command = made.master_pod(job(), uid=UID, image="resile:1", serial=0)["spec"]["containers"][0][
        "command"
    ]
    assert command[command.index("--nnodes") + 1] == "1:4"
    assert command[command.index("--job") + 1] == "digits"


def test_a_claim_of_the_users_holds_the_masters_store() -> None:
    elastic = job(master={"storage": {"claim": "keep"}, "image": "mine:2"})
    pod = made.master_pod(elastic, uid=UID, image="resile:1", serial=3)
    store = next(v for v in pod["spec"]["volumes"] if v["name"] == "store")
    assert store["persistentVolumeClaim"] == {"claimName": "keep"}
    assert pod["spec"]["containers"][0]["image"] == "mine:2"
    assert pod["metadata"]["name"] == "digits-master-3"


def test_agents_find_the_master_by_the_name_of_its_service() -> None:
    service = made.master_service(job(), uid=UID)
    pod = made.master_pod(job(), uid=UID, image="resile:1", serial=0)
    assert str(made.master_endpoint(job())) == "digits-master.ml.svc:29400"
    assert service["metadata"]["name"] == "digits-master"
    selected = service["spec"]["selector"].items()
    assert selected <= pod["metadata"]["labels"].items()


def test_a_role_named_master_keeps_its_names() -> None:
    elastic = job()
    roles = {"master": elastic.spec.roles["worker"]}
    from msgspec.structs import replace

    renamed = replace(elastic, spec=replace(elastic.spec, roles=roles))
    pod = made.master_pod(renamed, uid=UID, image="resile:1", serial=0)
    assert pod["metadata"]["name"] == "digits-coordinator-0"
