"""The preview matches the objects that are created."""

from __future__ import annotations

from typing import Any

import pytest

from resile.client.cluster.manifest_source import (
    read_data,
    read_job,
    read_manifest,
    renamed,
    resolve_namespace,
)
from resile.client.cluster.preview import preview
from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.spec.job import ElasticJob

ROLES = {
    "worker": {"image": "x", "script": "t.py", "replicas": 2, "dependsOn": ["ps"]},
    "ps": {"image": "x", "command": ["ps"], "dependsOn": ["chief"]},
    "chief": {"image": "x", "command": ["chief"]},
    "evaluator": {"image": "x", "script": "e.py"},
}


def data(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "digits"},
        "spec": {"roles": ROLES, **spec},
    }


def job(**spec: Any) -> ElasticJob:
    return job_from_data(data(**spec))


def test_nodes_that_wait_for_other_roles_are_shown_in_the_order_of_their_start() -> None:
    pods = [one["metadata"]["name"] for one in preview(job()) if one["kind"] == "Pod"]
    assert pods[0] == "digits-master-0"
    assert sorted(pods[1:3]) == ["digits-chief-0", "digits-evaluator-0"]
    assert pods[3:] == ["digits-ps-0", "digits-worker-0", "digits-worker-1"]


def test_nodes_that_are_placed_together_have_a_group() -> None:
    (group,) = (one for one in preview(job(gangScheduling="PodGroup")) if one["kind"] == "PodGroup")
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert group["spec"] == {"minMember": 2}, "the others wait for these"


def test_a_job_that_is_not_started_makes_nothing() -> None:
    assert [one["kind"] for one in preview(job(suspend=True))] == ["ElasticJob"]
    assert [one["kind"] for one in preview(job(managedBy="another"))] == ["ElasticJob"]


def test_the_namespace_is_the_one_asked_for_or_written_or_usual() -> None:
    written = read_data(data())
    assert resolve_namespace(written, asked=None, usual="team").metadata.namespace == "team"
    assert resolve_namespace(written, asked="mine", usual="team").metadata.namespace == "mine"
    explicit = data()
    explicit["metadata"]["namespace"] = "default"
    assert (
        resolve_namespace(read_data(explicit), asked=None, usual="team").metadata.namespace
        == "default"
    )
    assert resolve_namespace(read_job(job()), asked=None, usual="team").metadata.namespace == "team"
    with pytest.raises(ManifestError, match="is default, but namespace mine was asked for"):
        resolve_namespace(read_data(explicit), asked="mine", usual="team")
    assert renamed(written, "other").job.metadata.name == "other"


def test_a_problem_of_pods_has_the_line_of_what_it_stands_in() -> None:
    text = (
        "apiVersion: resile.dev/v1alpha1\nkind: ElasticJob\nmetadata:\n  name: digits\nspec:\n"
        "  roles:\n    worker:\n      image: x\n      script: t.py\n      volumeMounts:\n"
        "      - name: data\n        mountPath: /data\n"
    )
    with pytest.raises(ManifestError, match=r"there is no volume named data \(line 11\)"):
        read_manifest(text)
