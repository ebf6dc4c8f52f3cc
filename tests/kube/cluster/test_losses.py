"""Pods that are lost in various ways while they train."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from resile.kube.resources import PODS, Resource
from resile.operator.build.labels import ID, MASTER, RANK
from tests.kube.cluster.training import ClusterJob
from tests.kube.operator.stage import eventually

VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(600)]


async def test_a_deleted_worker_is_replaced_and_no_sample_is_lost(job: ClusterJob) -> None:
    await job.submit(replicas={"min": 1, "max": 2})
    first = await job.trains(world=2)
    survivor = await job.worker(0)
    await job.client.delete(PODS, "train-worker-1")
    await job.trains(world=1, after=first)
    again = await job.trains(world=2, after=first)
    new = await job.worker(1)
    labels = new["metadata"]["labels"]
    assert (labels[RANK], labels[ID]) == ("1", "2")
    assert new["metadata"]["name"] == "train-worker-2"
    assert (await job.worker(0))["metadata"]["uid"] == survivor["metadata"]["uid"]
    statuses = (await job.worker(0))["status"]["containerStatuses"]
    assert [one["restartCount"] for one in statuses] == [0]
    assert again > first
    await job.finish()
    assert job.written.lost_steps() == [], "a node that is deleted saves before it leaves"
    job.proof()


@pytest_asyncio.fixture
async def claim(job: ClusterJob) -> AsyncIterator[dict[str, Any]]:
    """A claim for a master's store: a volume in a folder that the test can read."""
    name, kept = job.client.namespace, job.folder / "kept"
    kept.mkdir()
    kept.chmod(0o777)
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume = {"capacity": size, "accessModes": modes, "hostPath": {"path": str(kept)}}
    request = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
    await job.client.create(VOLUMES, {"metadata": {"name": name}, "spec": volume})
    await job.client.create(
        CLAIMS, {"metadata": {"name": "kept"}, "spec": {**request, "volumeName": name}}
    )
    yield {"storage": {"claim": "kept"}}
    await job.client.delete(VOLUMES, name)


async def test_a_master_with_a_volume_goes_on_from_its_store(
    job: ClusterJob, claim: dict[str, Any]
) -> None:
    await job.submit(spec={"master": claim})
    await replace_master(job)
    assert list((job.folder / "kept").iterdir()), "its store lies there"


async def test_a_master_that_is_deleted_is_replaced_and_nobody_restarts(job: ClusterJob) -> None:
    await job.submit()
    await replace_master(job)


async def replace_master(job: ClusterJob) -> None:
    """Delete the master of a training, and check that the round goes on and the next one works."""
    first = await job.trains(world=2)
    (master,) = await job.pods(job.name, MASTER)
    await job.client.delete(PODS, master["metadata"]["name"])

    async def another() -> bool:
        masters = await job.pods(job.name, MASTER)
        return any(
            one["metadata"]["uid"] != master["metadata"]["uid"]
            and any(c.get("ready") for c in one["status"].get("containerStatuses") or ())
            for one in masters
        )

    await eventually(another, "another master to be ready")
    await job.goes_on()
    assert job.written.round == first, "the round goes on"
    # The new master is active: a worker that fails makes a new round under it.
    await job.client.delete(PODS, "train-worker-1")
    await job.trains(world=2, after=first)
    await job.finish()
    job.proof()


async def test_a_worker_that_runs_out_of_memory_gets_twice_as_much(job: ClusterJob) -> None:
    hog = ["python3", "-c", "x = bytearray(300 << 20); import time; time.sleep(3600)"]
    limits = {"limits": {"memory": "200Mi"}}
    await job.submit(replicas=1, script=None, command=hog, resources=limits)
    await job.told(job.name, "ran out of 200Mi of memory; relaunched with 400Mi")
    await job.condition(job.name, "Running", "1 of 1 nodes are running")
    new = await job.worker(0)
    assert new["spec"]["containers"][0]["resources"]["limits"]["memory"] == "400Mi"


async def test_a_job_that_cannot_start_says_why(job: ClusterJob) -> None:
    await job.submit(replicas=1, image="127.0.0.1:5000/no-such-image:1")
    await job.condition(job.name, "Running", "its image cannot be pulled")


async def test_a_command_that_is_not_there_fails_the_job(job: ClusterJob) -> None:
    await job.submit(replicas=1, script=None, command=["/no/such/program"])
    await job.has_phase(job.name, "Failed")
    await job.condition(job.name, "Failed", "no such file or directory")


async def test_a_quota_that_is_used_up_is_said_and_waited_for(job: ClusterJob) -> None:
    quotas = Resource("", "v1", "ResourceQuota", "resourcequotas")
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    await job.client.create(quotas, body)
    await job.submit(replicas={"min": 1, "max": 3})
    await job.condition(job.name, "Running", "exceeded quota")
    await job.client.patch(quotas, "few", {"spec": {"hard": {"pods": "9"}}})
    await job.trains(world=3)
