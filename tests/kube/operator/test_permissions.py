"""The operator with exactly the permissions that deploy/operator/rbac.yaml gives it, and no more.

Minimal in both directions: they are sufficient for everything it does, and the API server's audit
log shows that each of them is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from resile.kube.resources import (
    CUSTOM_RESOURCES,
    ELASTIC_JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)
from resile.operator.build.gang import POD_GROUPS
from resile.operator.build.labels import MASTER
from tests.kube.apiserver import GUEST, ApiServer
from tests.kube.operator.audited import audited, requests
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

DEPLOY = Path(__file__).parents[3] / "deploy" / "operator"
GROUP = "rbac.authorization.k8s.io"
SYSTEM = "resile-system"
KINDS = {
    "ClusterRole": Resource(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False),
    "Role": Resource(GROUP, "v1", "Role", "roles"),
    "ClusterRoleBinding": Resource(
        GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
    ),
    "RoleBinding": Resource(GROUP, "v1", "RoleBinding", "rolebindings"),
}
CHECKED_ON_THE_WAY = {("update", "elasticjobs/finalizers")}
"""Checked by the authorizer for another request (an owner that blocks deletion), never a separate
request."""

POD_GROUP_DEFINITION = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": POD_GROUPS.group,
        "names": {"kind": POD_GROUPS.kind, "plural": POD_GROUPS.plural},
        "scope": "Namespaced",
        "versions": [
            {
                "name": POD_GROUPS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""Only the fields needed here: a scheduler that supports groups brings its own definition."""

NEWER_CLUSTERS = {("patch", "pods")}
"""Scheduling gates; this API server does not support them."""

Permission = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with audited(tmp_path_factory.mktemp("kube")) as server:
        yield server


def documents() -> list[dict[str, Any]]:
    found = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
    return [one for one in found if one["kind"] in KINDS]


def granted() -> set[Permission]:
    return {
        (verb, resource)
        for one in documents()
        for rule in one.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(server: ApiServer) -> set[Permission]:
    """The permissions that the guest used; fails if a request was forbidden."""
    asked = set()
    for entry in requests(server):
        about = entry.get("objectRef") or {}
        if entry["user"]["username"] != GUEST or "resource" not in about:
            continue
        parts = [about["resource"], about.get("subresource")]
        asked.add((entry["verb"], "/".join(part for part in parts if part)))
        code = (entry.get("responseStatus") or {}).get("code", 200)
        assert code != 403, f"refused: {entry['verb']} {entry['requestURI']}"
    return asked


async def install(stage: Stage) -> None:
    """Like `kubectl apply -k deploy/operator`, for the guest instead of a service account."""
    await stage.client.create(CUSTOM_RESOURCES, POD_GROUP_DEFINITION)
    await eventually(lambda: stage.client.list(POD_GROUPS), "the cluster to know PodGroups")
    await stage.client.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    for one in documents():
        if "subjects" in one:
            one["subjects"] = [{"kind": "User", "name": GUEST, "apiGroup": GROUP}]
        await stage.client.create(KINDS[one["kind"]], one)
    own = {"containers": [{"name": "operator", "image": "resile:own"}]}
    metadata = {"name": "operator-0", "namespace": SYSTEM}
    await stage.client.create(PODS, {"metadata": metadata, "spec": own})


async def test_it_needs_all_of_its_permissions_and_no_other(
    server: ApiServer,
    stage: Stage,
    kubelets: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = granted() - CHECKED_ON_THE_WAY - NEWER_CLUSTERS
    await install(stage)
    monkeypatch.setenv("POD_NAME", "operator-0")
    monkeypatch.setenv("POD_NAMESPACE", SYSTEM)
    flags = ("--lease-namespace", SYSTEM)
    operator = OperatorProcess(server.kubeconfig(GUEST), tmp_path, *flags, image=None)
    try:
        operator.wait_until_it_leads()
        await _walk_through_a_life(stage, kubelets)

        async def nothing_more() -> bool:
            return used(server) >= needed

        await eventually(nothing_more, "every permission to be used")
        assert used(server) == needed
        assert "Traceback" not in operator.text()
    finally:
        operator.end()


async def _walk_through_a_life(stage: Stage, kubelets: StandIn) -> None:
    spec = {"ttlSecondsAfterFinished": 2, "gangScheduling": "PodGroup"}
    await stage.create("digits", {"replicas": 2}, **spec)
    await stage.has_nodes("digits", 2)
    await stage.has_phase("digits", "Running")
    (master,) = await stage.pods("digits", MASTER)
    assert master["spec"]["containers"][0]["image"] == "resile:own"
    await _lose_master(stage)
    await _change_group(stage)
    await _tell_twice(stage)
    await _change_addresses(stage)
    await stage.delete_slowly("digits-worker-1")

    async def replaced() -> bool:
        return sorted(await stage.nodes("digits")) == [0, 2]

    await eventually(replaced, "the deleted node to be replaced")
    await stage.let_go("digits-worker-1")
    for pod in await stage.pods("digits"):
        await kubelets.end(pod, 0, "Completed")

    async def gone() -> bool:
        return not (await stage.client.list(ELASTIC_JOBS, namespace=stage.client.namespace)).items

    await eventually(gone, "the job to be deleted")


async def _tell_twice(stage: Stage) -> None:
    """Cause the same event again, which increments the count of the first."""
    await stage.create("broken", {"replicas": {"min": 3, "max": 2}})
    await stage.condition("broken", "Created", "InvalidSpec")
    for least, reason in ((1, "JobCreated"), (3, "InvalidSpec")):
        body = {"spec": {"roles": {"worker": {"replicas": {"min": least}}}}}
        await stage.client.patch(ELASTIC_JOBS, "broken", body)
        await stage.condition("broken", "Created", reason)
    await stage.client.delete(ELASTIC_JOBS, "broken")


async def _change_group(stage: Stage) -> None:
    """Reduce the minimal number of nodes."""
    body = {"spec": {"roles": {"worker": {"replicas": {"min": 1, "max": 2}}}}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body)

    async def smaller() -> bool:
        group = await stage.client.get(POD_GROUPS, "digits")
        return bool(group["spec"]["minMember"] == 1)

    await eventually(smaller, "the group to need fewer")


async def _change_addresses(stage: Stage) -> None:
    """Make a job with ports and a Service for each rank smaller, and change its ports."""
    role = {"command": ["serve"], "image": "some", "kind": "Server", "ports": {"rpc": 7000}}
    role["replicas"] = {"min": 1, "max": 2}
    spec = {"roles": {"ps": role}, "names": {"rankService": "{job}-{role}-{rank}"}}
    await stage.client.create(ELASTIC_JOBS, {"metadata": {"name": "ctr"}, "spec": spec})

    async def served() -> bool:
        return bool(await stage.client.get(SERVICES, "ctr-ps-1"))

    await eventually(served, "a Service for each rank")
    body = {"spec": {"roles": {"ps": {"replicas": {"wanted": 1}, "ports": {"rpc": 7001}}}}}
    await stage.client.patch(ELASTIC_JOBS, "ctr", body)

    async def changed() -> bool:
        names = {f"ctr-{name}" for name in ("master", "nodes", "ps-0")}
        found = await stage.client.list(SERVICES, namespace=stage.client.namespace)
        ours = {one["metadata"]["name"]: one for one in found.items if "ctr" in str(one)}
        ports = {one["port"] for each in ours.values() for one in each["spec"]["ports"]}
        return ours.keys() == names and ports == {29400, 7001}

    await eventually(changed, "one rank with the new port")
    await stage.client.delete(ELASTIC_JOBS, "ctr")


async def _lose_master(stage: Stage) -> None:
    (old,) = await stage.pods("digits", MASTER)
    await stage.client.delete(PODS, old["metadata"]["name"])

    async def another() -> bool:
        masters = await stage.pods("digits", MASTER)
        return len(masters) == 1 and masters[0]["metadata"]["uid"] != old["metadata"]["uid"]

    await eventually(another, "another master")
