"""Events are limited by the job that an object belongs to."""

from __future__ import annotations

from typing import Any

from resile.kube.client import KubeClient
from resile.kube.kubeconfig import ClusterConfig, ClusterEntry, UserEntry
from resile.kube.runtime.events import EventRecorder
from resile.operator.build.labels import JOB, job_key


def unused_client() -> KubeClient:
    server = ClusterEntry(server="http://127.0.0.1:1")
    return KubeClient(ClusterConfig("none", server, UserEntry()))


def pod(name: str, job: str | None) -> dict[str, Any]:
    labels = {} if job is None else {JOB: job}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def elastic_job(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {JOB: "another"}}
    return {"apiVersion": "resile.dev/v1alpha1", "kind": "ElasticJob", "metadata": metadata}


def test_a_job_and_its_pods_have_one_key() -> None:
    assert job_key(pod("digits-worker-0", "digits")) == ("default", "digits")
    assert job_key(elastic_job("digits")) == ("default", "digits")
    assert job_key(pod("somebody", None)) == ("default", "somebody")


def test_all_objects_of_a_job_share_its_queue() -> None:
    recorder = EventRecorder(unused_client(), waiting=2, owner_of=job_key)
    told = [recorder.record(pod(f"digits-{n}", "digits"), "Why", "because") for n in range(4)]
    assert told == [True, True, False, False]
    assert recorder.record(pod("other-0", "other"), "Why", "because")
    assert recorder.dropped == 2


def test_without_a_job_each_object_has_its_own_queue() -> None:
    recorder = EventRecorder(unused_client(), waiting=1)
    assert all(recorder.record(pod(f"digits-{n}", "digits"), "Why", "because") for n in range(3))
