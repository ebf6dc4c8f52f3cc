"""The pod of a node."""

from __future__ import annotations

from typing import Any

import pytest

from resile.control.actions import Priority
from resile.job.spec.role import NodeResources
from resile.operator.build.labels import (
    DEFAULT_CONTAINER,
    job_of,
    main_container_of,
    node_of,
)
from resile.operator.build.pods import MAIN_CONTAINER, build_node_pod
from tests.unit.operator.build.jobs import UID, job, order

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def built(role: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return build_node_pod(
        job(role), order(**changes), uid=UID, environment=[{"name": "T", "value": "x"}]
    )


def main(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_a_pod_knows_which_node_of_which_job_it_is() -> None:
    pod = built()
    assert node_of(pod) == order().node
    assert job_of(pod) == ("ml", "digits")
    assert pod["metadata"]["ownerReferences"][0]["uid"] == UID


def test_it_runs_the_nodes_command_once() -> None:
    pod = built({"template": {"spec": {"containers": [{"name": "x", "args": ["--old"]}]}}})
    assert main(pod)["command"] == ["resile", "run", "train.py"]
    assert "args" not in main(pod)
    assert pod["spec"]["restartPolicy"] == "Never"


def test_a_node_without_a_command_runs_what_its_image_or_template_says() -> None:
    template = {"spec": {"containers": [{"name": "x", "command": ["sh"], "args": ["-c", "true"]}]}}
    pod = built({"template": template}, command=())
    assert main(pod)["command"] == ["sh"]
    assert main(pod)["args"] == ["-c", "true"]


def test_what_the_user_wrote_in_the_template_stays() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "unheardOf": {"deep": [1]},
            "containers": [
                {"name": "main", "env": [{"name": "MINE", "value": "1"}]},
                {"name": "sidecar", "image": "side:1"},
            ],
            "volumes": [{"name": "data"}],
        },
    }
    pod = built({"template": template})
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    assert pod["spec"]["unheardOf"] == {"deep": [1]}
    assert pod["spec"]["containers"][1] == {"name": "sidecar", "image": "side:1"}
    assert {"name": "data"} in pod["spec"]["volumes"]
    assert {"name": "MINE", "value": "1"} in main(pod)["env"]


def test_the_same_template_makes_two_pods_that_share_nothing() -> None:
    elastic = job({"template": {"spec": {"containers": [{"name": "main"}]}}})
    first = build_node_pod(elastic, order(), uid=UID, environment=[])
    second = build_node_pod(elastic, order(), uid=UID, environment=[])
    first["spec"]["containers"][0]["env"].append("spoilt")
    assert "spoilt" not in second["spec"]["containers"][0]["env"]
    assert elastic.spec.roles["worker"].template == {"spec": {"containers": [{"name": "main"}]}}


def test_of_two_variables_with_one_name_the_manifests_wins_over_the_templates() -> None:
    template = {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "0"}]}]}}
    env = {one["name"]: one.get("value") for one in main(built({"template": template}))["env"]}
    assert env["A"] == "1"
    assert env["T"] == "x"
    assert env["RESILE_NODE_RANK"] == "1"
    assert env["RESILE_NODE_ID"] == "7"


def test_shared_memory_is_as_large_as_the_memory_limit() -> None:
    pod = built(resources=NodeResources(limits={"memory": "8Gi"}))
    shared = next(v for v in pod["spec"]["volumes"] if v["name"] == "shared-memory")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in main(pod)["volumeMounts"]


def test_shared_memory_of_the_users_own_is_left_alone() -> None:
    mounts = [{"name": "mine", "mountPath": "/dev/shm"}]
    role = {"volumes": [{"name": "mine", "emptyDir": {}}], "volumeMounts": mounts}
    pod = built(role)
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["mine"]
    assert main(pod)["volumeMounts"] == mounts


def test_shared_memory_is_as_large_as_a_memory_limit_of_the_templates() -> None:
    resources = {"limits": {"memory": "4Gi"}}
    pod = built({"template": {"spec": {"containers": [{"resources": resources}]}}})
    assert {"medium": "Memory", "sizeLimit": "4Gi"} in [
        volume.get("emptyDir") for volume in pod["spec"]["volumes"]
    ]


@pytest.mark.parametrize("none", [0, "0", "0Gi"])
def test_no_shared_memory_is_none_at_all(none: int | str) -> None:
    pod = built({"sharedMemory": none}, resources=NodeResources(limits={"memory": "8Gi"}))
    assert "volumes" not in pod["spec"]
    assert "volumeMounts" not in main(pod)


def test_a_volume_of_the_users_at_dev_shm_may_have_the_name_of_ours() -> None:
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    spec = {"containers": [{"volumeMounts": mounts}], "volumes": [{"name": "shared-memory"}]}
    pod = built({"template": {"spec": spec}})
    assert pod["spec"]["volumes"] == [{"name": "shared-memory"}]
    assert main(pod)["volumeMounts"] == mounts


def test_grown_memory_wins_over_the_templates() -> None:
    resources = {"limits": {"memory": "4Gi", "x/gpu": 1}}
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    grown = NodeResources(limits={"memory": "8Gi"}, requests={"memory": "8Gi"})
    pod = built({"template": template}, resources=grown)
    assert main(pod)["resources"]["limits"] == {"memory": "8Gi", "x/gpu": 1}


def test_a_class_a_selector_and_tolerations_are_put_in() -> None:
    role = {
        "tolerations": [{"key": "gpu"}],
        "nodeSelector": {"zone": "b"},
        "serviceAccount": "trainer",
        "imagePullPolicy": "Never",
    }
    pod = built(role, priority=Priority(value=1000, class_name="high"))
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["tolerations"] == [{"key": "gpu"}]
    assert pod["spec"]["nodeSelector"] == {"zone": "b"}
    assert pod["spec"]["serviceAccountName"] == "trainer"
    assert main(pod)["imagePullPolicy"] == "Never"


def terms_avoiding(hosts: list[str], affinity: Any = None) -> list[dict[str, Any]]:
    """The node selector terms of a pod."""
    elastic = job({"template": {"spec": {"affinity": affinity}}} if affinity else None)
    pod = build_node_pod(elastic, order(), uid=UID, environment=[], avoid=hosts)
    found = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    terms: list[dict[str, Any]] = found["nodeSelectorTerms"]
    return terms


def not_on(host: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [host]}


def test_a_machine_to_be_avoided_is_kept_out_of_every_alternative() -> None:
    in_a_zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    on_one = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-b"]}]}
    required = {"nodeSelectorTerms": [in_a_zone, on_one]}
    found = terms_avoiding(["node-a"], {"nodeAffinity": {REQUIRED: required}})
    assert found == [
        {**in_a_zone, "matchFields": [not_on("node-a")]},
        {"matchFields": [*on_one["matchFields"], not_on("node-a")]},
    ]


@pytest.mark.parametrize("empty", [{}, {"matchExpressions": []}, {"matchFields": None}])
def test_an_alternative_that_matches_no_machine_stays_one(empty: dict[str, Any]) -> None:
    required = {"nodeSelectorTerms": [empty]}
    assert terms_avoiding(["node-a"], {"nodeAffinity": {REQUIRED: required}}) == [empty]


@pytest.mark.parametrize(
    "affinity",
    [None, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None}}, {"podAffinity": {}}],
)
def test_without_alternatives_of_the_users_there_is_one(affinity: Any) -> None:
    """Kubernetes takes one machine a requirement."""
    found = terms_avoiding(["node-a", "node-b"], affinity)
    assert found == [{"matchFields": [not_on("node-a"), not_on("node-b")]}]


def test_secrets_of_role_and_template_are_all_used_once() -> None:
    template = {"spec": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}}
    pod = built({"imagePullSecrets": ["b", "c"], "template": template})
    assert pod["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_services_set_no_variables_unless_the_template_asks_for_them() -> None:
    assert built()["spec"]["enableServiceLinks"] is False
    asked = built({"template": {"spec": {"enableServiceLinks": True}}})
    assert asked["spec"]["enableServiceLinks"] is True


def test_the_container_that_trains_is_known_by_its_name_wherever_it_comes_to_stand() -> None:
    metadata = {"annotations": {DEFAULT_CONTAINER: "sidecar"}}
    spec = {"containers": [{"name": "train"}, {"name": "sidecar"}]}
    pod = built({"template": {"metadata": metadata, "spec": spec}})
    pod["spec"]["containers"].insert(0, {"name": "proxy"})
    assert main_container_of(pod) == "train"


def test_a_container_without_a_name_is_given_one() -> None:
    assert main_container_of(built()) == MAIN_CONTAINER
