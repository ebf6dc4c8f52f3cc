"""Problems that keep the nodes of a valid job from becoming pods."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from resile.job.manifest.parse import job_from_data
from resile.job.manifest.pod_checks import kubernetes_problems, main_container
from tests.unit.job.strategies import json_values

NEEDED = {"script": "train.py", "image": "train:1"}


def problems(worker: dict[str, Any], **spec: Any) -> list[tuple[str, str]]:
    job = job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "train"},
            "spec": {"roles": {"worker": worker}, **spec},
        }
    )
    return [(found.path, found.message) for found in kubernetes_problems(job)]


def pod(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


@pytest.mark.parametrize(
    "worker",
    [
        NEEDED,
        {"script": "train.py", "template": pod({"image": "train:1"})},
        {**NEEDED, "template": pod({"image": "train:1", "name": "main"}, {"name": "logs"})},
        {**NEEDED, "template": {"metadata": {"labels": {"team": "a"}}}},
        {**NEEDED, "template": {"metadata": None, "spec": None}},
        {"template": pod({"image": "train:1", "command": ["train"]})},
        {"template": pod({"image": "train:1", "command": ["train"]}), "args": ["--fast"]},
        {
            **NEEDED,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "sharedMemory": "1Gi",
        },
        {
            **NEEDED,
            "template": pod(volumes=[{"name": "data"}]),
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        {**NEEDED, "template": pod(terminationGracePeriodSeconds=30)},
        {
            **NEEDED,
            "terminationGracePeriodSeconds": 59.5,
            "template": pod(terminationGracePeriodSeconds=60),
        },
        {
            **NEEDED,
            "sharedMemory": 0,
            "volumes": [{"name": "shm"}],
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        },
        {**NEEDED, "sharedMemory": 0, "volumes": [{"name": "shared-memory"}]},
        {**NEEDED, "priority": "high=0.5"},
        {**NEEDED, "priority": 0},
    ],
)
def test_what_can_become_pods_has_no_problem(worker: dict[str, Any]) -> None:
    assert problems(worker) == []


@pytest.mark.parametrize(
    ("worker", "path", "message"),
    [
        ({"script": "train.py"}, "image", "is missing: a pod needs one, here or in the first "),
        ({"script": "train.py", "template": pod({"name": "a"})}, "image", "is missing: a pod "),
        (
            {**NEEDED, "template": pod({"image": "other:2"})},
            "template.spec.containers[0].image",
            "the role's image is train:1; give only one of the two",
        ),
        (
            {**NEEDED, "template": {"containers": []}},
            "template.containers",
            "is not part of a pod template, which has metadata and spec",
        ),
        ({**NEEDED, "template": {"spec": []}}, "template.spec", "expected a mapping"),
        (
            {**NEEDED, "template": {"spec": {"containers": {"name": "main"}}}},
            "template.spec.containers",
            "expected a list of mappings",
        ),
        (
            {**NEEDED, "template": pod("main")},
            "template.spec.containers",
            "expected a list of mappings",
        ),
        (
            {**NEEDED, "template": pod({"name": "a"}, {"image": "b"})},
            "template.spec.containers[1].name",
            "is missing: give the container a name",
        ),
        (
            {**NEEDED, "template": pod({"name": "a"}, initContainers=[{"name": "a"}])},
            "template.spec.initContainers[0].name",
            "two containers are named a",
        ),
        (
            {**NEEDED, "template": pod({"command": ["python"]})},
            "template.spec.containers[0].command",
            "the role's script says what a node runs; give only one of the two",
        ),
        (
            {
                "image": "train:1",
                "args": ["--fast"],
                "template": pod({"args": ["--slow"]}),
            },
            "template.spec.containers[0].args",
            "the role's args says what a node runs; give only one of the two",
        ),
        (
            {**NEEDED, "template": pod(restartPolicy="Always")},
            "template.spec.restartPolicy",
            "must be Never or left out",
        ),
        (
            {**NEEDED, "volumes": [{"emptyDir": {}}]},
            "volumes[0].name",
            "is missing: give the volume a name",
        ),
        (
            {**NEEDED, "volumes": [{"name": "a"}], "template": pod(volumes=[{"name": "a"}])},
            "volumes[0].name",
            "two volumes are named a",
        ),
        (
            {**NEEDED, "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            "volumeMounts[0].name",
            "there is no volume named data",
        ),
        (
            {**NEEDED, "volumes": [{"name": "a"}], "volumeMounts": [{"name": "a"}]},
            "volumeMounts[0].mountPath",
            "is missing: give the path to mount it at",
        ),
        (
            {
                **NEEDED,
                "volumes": [{"name": "a"}],
                "volumeMounts": [{"name": "a", "mountPath": "/a"}],
                "template": pod({"volumeMounts": [{"name": "a", "mountPath": "/a"}]}),
            },
            "volumeMounts[0].mountPath",
            "something is already mounted at /a",
        ),
        (
            {
                **NEEDED,
                "volumes": [{"name": "shm"}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "sharedMemory": "1Gi",
            },
            "sharedMemory",
            "a volume is already mounted at /dev/shm; give only one of the two",
        ),
        (
            {**NEEDED, "template": pod(volumes=[{"name": "shared-memory"}])},
            "template.spec.volumes[0].name",
            "is reserved for the volume at /dev/shm; choose another name",
        ),
        (
            {**NEEDED, "template": pod(terminationGracePeriodSeconds=60)},
            "template.spec.terminationGracePeriodSeconds",
            "the role's is 30: set terminationGracePeriodSeconds of the role instead",
        ),
        (
            {**NEEDED, "priority": 7},
            "priority",
            "pods have no numeric priority (7): give the name of a PriorityClass",
        ),
    ],
)
def test_what_cannot_become_pods_is_named(worker: dict[str, Any], path: str, message: str) -> None:
    found = problems(worker)
    assert len(found) == 1, found
    assert found[0][0] == f"spec.roles.worker.{path}"
    assert found[0][1].startswith(message)


def test_the_masters_template_is_looked_at_as_well() -> None:
    found = problems(NEEDED, master={"template": {"spec": {"containers": 3}}})
    assert found == [("spec.master.template.spec.containers", "expected a list of mappings")]


@pytest.mark.parametrize(
    ("template", "path", "message"),
    [
        (
            pod({"command": ["sh"]}),
            "containers[0].command",
            "the operator sets the master's command; leave it out",
        ),
        (
            pod(restartPolicy="Never"),
            "restartPolicy",
            "must be Always or left out: a master that ends is restarted with its store",
        ),
        (
            pod(volumes=[{"name": "store"}]),
            "volumes[0].name",
            "is reserved for a volume of the master; choose another name",
        ),
        (
            pod({"volumeMounts": [{"name": "a", "mountPath": "/tmp"}]}),
            "containers[0].volumeMounts[0].mountPath",
            "is reserved for a volume of the master",
        ),
    ],
)
def test_what_a_master_cannot_have_is_named(
    template: dict[str, Any], path: str, message: str
) -> None:
    found = problems(NEEDED, master={"template": template})
    assert found == [(f"spec.master.template.spec.{path}", message)]


def test_a_misshapen_template_does_not_put_the_blame_on_its_role() -> None:
    found = problems({"script": "train.py", "template": {"spec": {"containers": "none"}}})
    assert [path for path, _ in found] == ["spec.roles.worker.template.spec.containers"]


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": 1}, pod(), pod("text")])
def test_a_template_without_a_main_container_has_an_empty_one(template: dict[str, Any]) -> None:
    assert main_container(template) == {}


def pieces(*names: str) -> st.SearchStrategy[Any]:
    return st.lists(st.dictionaries(st.sampled_from(names), json_values), max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    template=st.fixed_dictionaries(
        {"spec": st.dictionaries(st.sampled_from(["containers", "volumes"]), json_values)}
    )
    | pieces("name", "image", "command", "volumeMounts").map(lambda found: pod(*found)),
    volumes=pieces("name"),
    mounts=pieces("name", "mountPath"),
)
def test_whatever_is_written_is_judged_in_words(
    template: dict[str, Any], volumes: list[Any], mounts: list[Any]
) -> None:
    found = problems({**NEEDED, "template": template, "volumes": volumes, "volumeMounts": mounts})
    assert all(path.startswith("spec.roles.worker.") and message for path, message in found)
