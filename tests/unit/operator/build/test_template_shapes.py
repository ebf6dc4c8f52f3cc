"""Any content of a template is either reported, or a pod can be built with it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.job.manifest.pod_checks import kubernetes_problems
from resile.operator.build.master import build_master_pod
from resile.operator.build.pods import build_node_pod
from tests.unit.job.strategies import json_values
from tests.unit.operator.build.jobs import UID, job, order

CONTAINER = {
    "name": "main",
    "image": "train:1",
    "env": [{"name": "A", "value": "1"}],
    "resources": {"requests": {"cpu": 1}, "limits": {"memory": "4Gi"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
SIDECAR = {"name": "side", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
EXISTS = [{"key": "zone", "operator": "Exists"}]
MACHINES = {"nodeSelectorTerms": [{"matchExpressions": EXISTS, "matchFields": []}]}
TEMPLATE = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
        "containers": [CONTAINER, SIDECAR],
        "initContainers": [{"name": "first"}],
        "volumes": [{"name": "data"}],
        "tolerations": [{"key": "gpu"}],
        "nodeSelector": {"pool": "a"},
        "imagePullSecrets": [{"name": "registry"}],
        "schedulingGates": [{"name": "other"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": MACHINES}},
    },
}
"""Every part that is set, read or merged."""

Step = str | int


def places(value: Any, path: tuple[Step, ...] = ()) -> list[tuple[Step, ...]]:
    """Every path within a value."""
    below: list[tuple[Step, Any]] = []
    if isinstance(value, dict):
        below = list(value.items())
    elif isinstance(value, list):
        below = list(enumerate(value))
    found = [at for step, one in below for at in places(one, (*path, step))]
    return [path, *found] if path else found


def with_value(path: tuple[Step, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = copy.deepcopy(TEMPLATE)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def built_or_named(template: dict[str, Any]) -> list[str]:
    """The paths of the errors; if there are none, pods are built."""
    role = {
        "template": template,
        "tolerations": [{"key": "b"}],
        "nodeSelector": {"zone": "b"},
        "imagePullSecrets": ["mine"],
        "volumes": [{"name": "role"}],
        "volumeMounts": [{"name": "role", "mountPath": "/role"}],
    }
    elastic = job(role, gangScheduling="SchedulingGates", master={"template": template})
    found = kubernetes_problems(elastic)
    if not found:
        avoid = ["node-a", "node-b"]
        build_node_pod(elastic, order(), uid=UID, environment=[{"name": "T"}], avoid=avoid)
        build_master_pod(elastic, uid=UID, image="resile:1", serial=0, tls=True)
    return [problem.path for problem in found]


def test_the_template_that_everything_is_tried_in_is_sound() -> None:
    assert built_or_named(TEMPLATE) == []


@settings(max_examples=600, deadline=None)
@given(path=st.sampled_from(places(TEMPLATE)), value=json_values)
def test_any_value_at_any_place_is_named_or_becomes_a_pod(
    path: tuple[Step, ...], value: Any
) -> None:
    built_or_named(with_value(path, value))


MAIN = "spec.containers[0]"
MACHINES_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("metadata", "labels"), ["a"], "metadata.labels"),
        (("metadata", "labels", "team"), 5, "metadata.labels.team"),
        (("metadata", "annotations"), "a", "metadata.annotations"),
        (("spec", "tolerations"), 5, "spec.tolerations"),
        (("spec", "nodeSelector"), ["a"], "spec.nodeSelector"),
        (("spec", "nodeSelector", "pool"), True, "spec.nodeSelector.pool"),
        (("spec", "imagePullSecrets"), "registry", "spec.imagePullSecrets"),
        (("spec", "schedulingGates"), {"name": "a"}, "spec.schedulingGates"),
        (("spec", "volumes"), {"data": {}}, "spec.volumes"),
        (("spec", "affinity"), "node", "spec.affinity"),
        (("spec", "affinity", "nodeAffinity"), [], "spec.affinity.nodeAffinity"),
        (
            ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
            [],
            MACHINES_PATH,
        ),
        (
            (
                *("spec", "affinity", "nodeAffinity"),
                *("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
            ),
            [3],
            f"{MACHINES_PATH}.nodeSelectorTerms",
        ),
        (("spec", "containers", 0, "name"), 5, f"{MAIN}.name"),
        (("spec", "containers", 0, "image"), 5, f"{MAIN}.image"),
        (("spec", "containers", 0, "env"), {"A": "1"}, f"{MAIN}.env"),
        (("spec", "containers", 0, "env", 0), {"value": "1"}, f"{MAIN}.env[0].name"),
        (("spec", "containers", 0, "env", 0, "name"), ["A"], f"{MAIN}.env[0].name"),
        (("spec", "containers", 0, "resources"), [], f"{MAIN}.resources"),
        (("spec", "containers", 0, "resources", "limits"), ["1Gi"], f"{MAIN}.resources.limits"),
        (("spec", "containers", 0, "resources", "requests"), 1, f"{MAIN}.resources.requests"),
        (
            ("spec", "containers", 0, "resources", "limits", "memory"),
            "4 gigs",
            f"{MAIN}.resources.limits.memory",
        ),
    ],
)
def test_what_is_of_the_wrong_kind_is_named_for_nodes_and_for_masters(
    path: tuple[Step, ...], value: Any, named: str
) -> None:
    assert built_or_named(with_value(path, value)) == [
        f"spec.roles.worker.template.{named}",
        f"spec.master.template.{named}",
    ]


@pytest.mark.parametrize("path", [path for path in places(TEMPLATE) if isinstance(path[-1], str)])
def test_null_is_as_good_as_absent_where_nothing_is_needed(path: tuple[Step, ...]) -> None:
    needed = ("name", "image", "cpu", "memory", "volumes")
    assert path[-1] in needed or built_or_named(with_value(path, None)) == []
