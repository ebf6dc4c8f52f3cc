"""The definition in deploy/crds on a real API server: accepted, rejected and printed objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data, parse_manifest
from resile.job.spec.job import ElasticJob
from tests.kube.crd.conftest import DEFINITION, JOBS, Cluster, Refused
from tests.manifests import dump_manifest
from tests.statuses import decode_status, encode_status
from tests.unit.job.strategies import elastic_jobs
from tests.unit.job.test_manifest import MINIMAL
from tests.unit.job.test_status import FULL

ROOT = Path(__file__).parents[3]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def job(name: str = "train", worker: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"roles": {"worker": {"script": "train.py", **(worker or {})}}, **spec},
    }


def as_text(data: dict[str, Any]) -> str:
    return msgspec.json.encode(data).decode()


def without_empty_texts(data: Any) -> Any:
    """A 1.20 that was built with a recent Go takes an empty string for null where it checks types.

    Both compare with one and the same zero value, which they did not when it was written.
    """
    if isinstance(data, dict):
        return {key: without_empty_texts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [without_empty_texts(item) for item in data]
    return "-" if data == "" else data


def our_manifests() -> dict[str, str]:
    """Every manifest in our documentation and tests."""
    page = (ROOT / "docs" / "manifest.md").read_text().split("```yaml\n")[1:]
    shown = [block.split("```")[0] for block in page]
    found = {f"page-{n}": text for n, text in enumerate(shown) if text.startswith("apiVersion")}
    for path in (ROOT / "examples").rglob("job*.yaml"):
        found[path.parent.name] = path.read_text()
    return {**found, "minimal": MINIMAL}


def test_the_definition_is_accepted_and_structural(cluster: Cluster) -> None:
    stored = cluster.request("GET", f"{DEFINITIONS}/elasticjobs.resile.dev")
    conditions = {found["type"]: found["status"] for found in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_applied_again_the_definition_is_unchanged(cluster: Cluster) -> None:
    assert cluster.kubectl("apply", "-f", str(DEFINITION)).strip().endswith(" unchanged")


# --- accepted ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", our_manifests().values(), ids=our_manifests())
def test_our_own_manifests_are_applied_and_come_back_as_they_were(
    cluster: Cluster, text: str
) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=text)
    described = parse_manifest(text)
    assert job_from_data(cluster.get(described.metadata.name)).spec == described.spec
    cluster.kubectl("delete", "ej", described.metadata.name)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(described=elastic_jobs())
def test_any_sound_job_is_accepted_and_nothing_of_it_is_lost(
    cluster: Cluster, described: ElasticJob
) -> None:
    data = without_empty_texts(msgspec.json.decode(dump_manifest(described, "json")))
    data["metadata"] = {"name": described.metadata.name}
    assert job_from_data(cluster.judge(data)).spec == job_from_data(data).spec


def test_a_whole_status_is_accepted_and_nothing_of_it_is_lost(cluster: Cluster) -> None:
    cluster.create(job("whole"))
    cluster.write_status("whole", msgspec.json.decode(encode_status(FULL)))
    assert decode_status(msgspec.json.encode(cluster.get("whole")["status"])) == FULL


def test_an_empty_field_is_an_absent_one_there_as_well(cluster: Cluster) -> None:
    stored = cluster.judge(job(worker={"args": None, "image": None}, backoff=None))
    assert stored["spec"] == job()["spec"]


def test_a_field_may_change_from_one_notation_to_another(cluster: Cluster) -> None:
    first = job("notations", {"replicas": {"min": 1, "max": 5}, "env": [{"name": "A"}]})
    second = job("notations", {"replicas": 4, "env": {"A": "b"}, "resources": {}})
    for data in (first, second, first):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=as_text(data))
        assert cluster.get("notations")["spec"] == data["spec"]


# --- rejected ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worker", "spec", "complaint"),
    [
        ({"replicas": {"min": -1}}, {}, "spec.roles.worker.replicas.min: Invalid value: -1"),
        ({"replicas": {"max": "4"}}, {}, "spec.roles.worker.replicas.max in body must be of type "),
        ({"replicas": -1}, {}, "spec.roles.worker.replicas: Invalid value: -1"),
        ({"nodeUnit": 0}, {}, "should be greater than or equal to 1"),
        ({"restartPolicy": "Sometimes"}, {}, 'supported values: "Never", "OnFailure", "Always", '),
        ({"procsPerNode": "many"}, {}, "spec.roles.worker.procsPerNode in body should match "),
        ({"procsPerNode": 0}, {}, "spec.roles.worker.procsPerNode: Invalid value: 0"),
        ({"procsPerNode": True}, {}, "spec.roles.worker.procsPerNode"),
        ({"args": "--fast"}, {}, "spec.roles.worker.args in body must be of type array"),
        ({"args": [3]}, {}, "spec.roles.worker.args"),
        ({"env": {"A": 1}}, {}, "spec.roles.worker.env.A in body must be of type string"),
        ({"env": [{"value": "1"}]}, {}, "spec.roles.worker.env.name: Required value"),
        ({"exitCodes": [{"codes": [1]}]}, {}, "spec.roles.worker.exitCodes.action: Required value"),
        ({"exitCodes": [{"codes": [256], "action": "Fail"}]}, {}, "less than or equal to 255"),
        ({"volumes": ["data"]}, {}, "spec.roles.worker.volumes in body must be of type object"),
        ({"template": []}, {}, "spec.roles.worker.template in body must be of type object"),
        ({"imagePullPolicy": "Maybe"}, {}, 'values: "Always", "IfNotPresent", "Never"'),
        ({}, {"roles": {}}, "spec.roles in body should have at least 1 properties"),
        ({}, {"roles": None}, "spec.roles: Required value"),
        ({}, {"replicas": -1}, "spec.replicas in body should be greater than or equal to 0"),
        ({}, {"suspend": "yes"}, "spec.suspend in body must be of type boolean"),
        ({}, {"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds in body should be greater "),
        ({}, {"gangScheduling": "Pods"}, 'values: "None", "SchedulingGates", "PodGroup"'),
        ({}, {"master": {"storage": {}}}, "spec.master.storage.claim: Required value"),
        ({}, {"rendezvous": {"leaseSeconds": "5s"}}, "spec.rendezvous.leaseSeconds in body must "),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(
    cluster: Cluster, worker: dict[str, Any], spec: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Refused) as refusal:
        cluster.judge(job(worker=worker, **spec))
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("data", [{**job(), "spec": None}, {**job(), "spec": {}}])
def test_a_job_without_roles_is_refused(cluster: Cluster, data: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"spec(\.roles)?: Required value"):
        cluster.judge(data)


@pytest.mark.parametrize("name", ["train.v2", "2nd"])
def test_a_name_that_pods_could_not_bear_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(Refused, match=r"metadata\.name in body should match"):
        cluster.judge(job(name))


def test_a_name_may_be_left_to_the_api_server(cluster: Cluster) -> None:
    stored = cluster.judge({**job(), "metadata": {"generateName": "train-"}})
    assert job_from_data(stored).metadata.name.startswith("train-")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (job(worker={"scrpt": "x"}), 'spec.roles.worker): unknown field "scrpt"'),
        (job(maxRestart=3), 'spec): unknown field "maxRestart"'),
        (job(worker={"restartBudget": {"perPod": 1}}), 'unknown field "perPod"'),
        (job(worker={"replicas": {"min": -1}}), "spec.roles.worker.replicas.min"),
    ],
)
def test_kubectl_refuses_a_wrong_field_by_name(
    cluster: Cluster, data: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Refused) as refusal:
        cluster.kubectl("apply", "-f", "-", stdin=as_text(data))
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    ("worker", "path"),
    [
        ({"replicas": "two"}, "replicas"),
        ({"replicas": {"min": 1, "mx": 2}}, "replicas"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}, "env"),
        ({"env": "A=1"}, "env"),
        ({"resources": {"limits": {"memory": "4GB"}}}, "resources.limits.memory"),
        ({"resources": {"limits": {"memory": {"max": 4}}}}, "resources.limits.memory"),
        ({"priority": ["high"]}, "priority"),
        ({"sharedMemory": True}, "sharedMemory"),
    ],
)
def test_what_only_we_can_know_is_kept_so_that_we_can_name_it(
    cluster: Cluster, worker: dict[str, Any], path: str
) -> None:
    data = job(worker=worker)
    stored = cluster.judge(data)
    assert stored["spec"] == data["spec"]
    with pytest.raises(ManifestError) as refusal:
        job_from_data(stored)
    assert refusal.value.problems[0].path.startswith(f"spec.roles.worker.{path}")


# --- scaling and showing --------------------------------------------------------------------


@pytest.mark.parametrize("before", [{}, {"replicas": 2}], ids=["unset", "set"])
def test_kubectl_scale_sets_the_jobs_replicas(cluster: Cluster, before: dict[str, Any]) -> None:
    name = f"scaled-{len(before)}"
    cluster.create(job(name, {"replicas": {"min": 1, "max": 8}}, **before))
    for size in (4, 1):
        cluster.kubectl("scale", f"elasticjob/{name}", f"--replicas={size}")
        assert cluster.get(name)["spec"]["replicas"] == size
        assert job_from_data(cluster.get(name)).spec.replicas == size


def test_an_autoscaler_reads_the_size_and_the_selector(cluster: Cluster) -> None:
    cluster.create(job("read", replicas=3))
    selector = "resile.dev/job=read,resile.dev/role=worker"
    cluster.write_status("read", {"replicas": 2, "selector": selector})
    scale = cluster.request("GET", f"{JOBS}/read/scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": selector}


def test_kubectl_shows_a_job_in_one_line(cluster: Cluster) -> None:
    cluster.create(job("shown"))
    status = {"phase": "Running", "ready": "3/4", "step": 120, "throughput": "12.3 steps/s"}
    cluster.write_status("shown", status)
    header, line = cluster.kubectl("get", "ej", "shown").splitlines()
    assert header.split() == ["NAME", "PHASE", "READY", "RESTARTS", "STEP", "THROUGHPUT", "AGE"]
    assert line.split()[:-1] == ["shown", "Running", "3/4", "0", "120", "12.3", "steps/s"]
    assert "elasticjob.resile.dev/shown" in cluster.kubectl("get", "all")


def test_kubectl_explains_every_field_of_a_role(cluster: Cluster) -> None:
    told = " ".join(cluster.kubectl("explain", "ej.spec.roles").split())
    assert "Time between SIGTERM and SIGKILL when a node is stopped. Default: 30." in told


def test_the_status_is_written_apart_from_the_spec(cluster: Cluster) -> None:
    cluster.create({**job("apart"), "status": {"phase": "Succeeded"}})
    assert "status" not in cluster.get("apart")
    written = cluster.write_status("apart", {"phase": "Failed"})
    assert written["metadata"]["generation"] == 1
