"""The pod of a node."""

from __future__ import annotations

from typing import Any

from resile.control.actions import Priority
from resile.job.role import NodeResources
from resile.platform.kubernetes.gang import GATE, gates_to_lift, pod_group
from resile.platform.kubernetes.labels import job_of, node_of
from resile.platform.kubernetes.pods import node_pod

from .jobs import UID, job, order


def built(role: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return node_pod(job(role), order(**changes), uid=UID, environment=[{"name": "T", "value": "x"}])


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
    first = node_pod(elastic, order(), uid=UID, environment=[])
    second = node_pod(elastic, order(), uid=UID, environment=[])
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


def test_a_machine_to_be_avoided_is_kept_out_of_every_alternative() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    template = {"spec": {"affinity": {"nodeAffinity": required}}}
    pod = node_pod(job({"template": template}), order(), uid=UID, environment=[], avoid=["node-a"])
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    avoided = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-a"]}
    assert [term["matchExpressions"][-1] for term in found] == [avoided, avoided]


def test_without_an_affinity_of_the_users_there_is_one_alternative() -> None:
    pod = node_pod(job(), order(), uid=UID, environment=[], avoid=["node-a"])
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert found[0]["matchExpressions"][0]["values"] == ["node-a"]


def test_a_gated_pod_waits_for_its_gang() -> None:
    gang = job({"replicas": 2}, gangScheduling="SchedulingGates")
    pod = node_pod(gang, order(), uid=UID, environment=[])
    pod["spec"]["schedulingGates"].append({"name": "another"})
    assert pod["spec"]["schedulingGates"][0] == {"name": GATE}
    second = {**pod, "metadata": {**pod["metadata"], "name": "second"}}
    assert gates_to_lift(gang, [pod]) == {}
    other = [{"name": "another"}]
    assert gates_to_lift(gang, [pod, second]) == {"digits-worker-7": other, "second": other}
    ended = {**second, "status": {"phase": "Failed"}}
    assert gates_to_lift(gang, [pod, ended]) == {}


def test_a_group_asks_for_as_many_as_the_job_needs() -> None:
    gang = job({"replicas": {"min": 3, "max": 5}}, gangScheduling="PodGroup")
    group = pod_group(gang, uid=UID)
    assert group is not None
    assert group["spec"] == {"minMember": 3}
    labels = node_pod(gang, order(), uid=UID, environment=[])["metadata"]["labels"]
    assert labels["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert pod_group(job(), uid=UID) is None
