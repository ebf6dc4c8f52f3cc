"""Changing capacity: scaling, new capacity, preemption, suspension, drains."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
import pytest_asyncio

from resile.job.spec.quantity import parse_quantity
from resile.kube.errors import AlreadyExists
from resile.kube.resources import ELASTIC_JOBS, NODES, PODS, PRIORITY_CLASSES, Resource
from tests.kube.cluster.target import MASTER_IMAGE
from tests.kube.cluster.training import ClusterJob, apart
from tests.kube.operator.stage import eventually
from tests.programs import KUBECTL

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(600)]

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
AUTOSCALERS = Resource("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
SLEEP = {"name": "sleep", "image": MASTER_IMAGE, "command": ["sleep", "3600"]}


@pytest_asyncio.fixture
async def cpus(job: ClusterJob) -> float:
    """The CPUs of the smaller of the cluster's two machines."""
    machines = (await job.client.list(NODES)).items
    if len(machines) != 2:
        pytest.skip(f"this needs a cluster of two machines, and here are {len(machines)}")
    return min(
        float(parse_quantity(one["status"]["allocatable"]["cpu"]).amount) for one in machines
    )


def asking(cpus: float) -> dict[str, Any]:
    return {"requests": {"cpu": f"{round(cpus * 1000)}m", "memory": "256Mi"}}


async def test_training_starts_with_three_and_takes_the_fourth_when_there_is_room(
    job: ClusterJob, cpus: float
) -> None:
    taken = {"metadata": {"name": "taken"}, "spec": {"containers": [{**SLEEP}]}}
    taken["spec"]["containers"][0]["resources"] = asking(0.5 * cpus)
    taken["spec"]["terminationGracePeriodSeconds"] = 0
    await job.client.create(PODS, taken)

    async def runs() -> bool:
        return (await job.client.get(PODS, "taken"))["status"]["phase"] == "Running"

    await eventually(runs, "a pod that takes room")
    await job.submit(replicas={"min": 2, "max": 4}, resources=asking(0.35 * cpus))
    first = await job.trains(world=3)
    await job.condition(job.name, "Running", "3 of 4 nodes are running; worker rank ")
    await job.condition(job.name, "Running", "Insufficient cpu")
    await job.client.delete(PODS, "taken", grace_seconds=0)
    await job.trains(world=4, after=first)
    await job.finish()
    assert job.written.lost_steps() == [], "all save before a node joins"
    job.proof()


async def test_scaling_down_lets_nodes_leave_cleanly_the_highest_rank_first(
    job: ClusterJob,
) -> None:
    await job.submit(replicas={"min": 1, "max": 3})
    first = await job.trains(world=3)
    await job.scale(1)
    second = await job.trains(world=1, after=first)
    await job.has_nodes(job.name, 1)
    assert sorted((await job.nodes(job.name)).values()) == [0]
    await job.scale(2)
    await job.trains(world=2, after=second)
    await job.finish()
    assert job.written.lost_steps() == []
    job.proof()


async def test_an_autoscaler_sets_the_size(job: ClusterJob) -> None:
    await job.submit(replicas={"min": 1, "max": 4}, spec={"replicas": 2})
    first = await job.trains(world=2)
    await job.client.create(AUTOSCALERS, autoscaler(job.name, at_least=3, at_most=4))
    second = await job.trains(world=3, after=first)
    bounds = {"spec": {"minReplicas": 1, "maxReplicas": 1}}
    await job.client.patch(AUTOSCALERS, "sizes", bounds)
    await job.trains(world=1, after=second)
    await job.finish()
    assert job.written.lost_steps() == []
    job.proof()


def autoscaler(job: str, *, at_least: int, at_most: int) -> dict[str, Any]:
    """An autoscaler that needs no metrics while the size is out of its bounds."""
    target = {"apiVersion": "resile.dev/v1alpha1", "kind": "ElasticJob", "name": job}
    return {
        "metadata": {"name": "sizes"},
        "spec": {"scaleTargetRef": target, "minReplicas": at_least, "maxReplicas": at_most},
    }


async def test_a_suspended_job_gives_all_room_back_and_goes_on_where_it_was(
    job: ClusterJob,
) -> None:
    await job.submit()
    await job.trains(world=2)
    await job.client.patch(ELASTIC_JOBS, job.name, {"spec": {"suspend": True}})
    await job.has_phase(job.name, "Suspended")

    async def nothing_runs() -> bool:
        found = await job.client.list(PODS, namespace=job.client.namespace)
        return not found.items

    await eventually(nothing_runs, "all pods to be gone")
    await job.client.patch(ELASTIC_JOBS, job.name, {"spec": {"suspend": False}})
    await job.goes_further(world=2)
    await job.finish()
    assert job.written.lost_steps() == []
    job.proof()


async def test_a_rolling_drain_of_every_node_loses_no_step(job: ClusterJob) -> None:
    await job.submit()
    round_ = await job.trains(world=2)
    for rank in (0, 1):
        pod = await job.worker(rank)
        await job.client.delete(PODS, pod["metadata"]["name"])
        round_ = await job.trains(world=2, after=round_)
    await job.finish()
    assert job.written.lost_steps() == []
    job.proof()


@pytest.mark.alone  # it evicts the pods of other tests, too
async def test_draining_one_machine_after_the_other_loses_no_step(
    job: ClusterJob, kubeconfig: str
) -> None:
    await job.submit(template=apart())
    await job.trains(world=2)
    for machine in sorted(pod["spec"]["nodeName"] for pod in await job.pods(job.name)):
        await kubectl(kubeconfig, "drain", machine, *DRAIN)
        try:
            await job.goes_further(world=2)
        finally:
            await kubectl(kubeconfig, "uncordon", machine)
    await job.finish()
    assert job.written.lost_steps() == []
    job.proof()


async def kubectl(kubeconfig: str, *words: str) -> None:
    command = [KUBECTL, "--kubeconfig", kubeconfig, *words]
    await asyncio.to_thread(subprocess.run, command, check=True)


async def test_preempted_workers_come_back_when_there_is_room_again(
    job: ClusterJob, cpus: float
) -> None:
    for name, value in (("resile-test-high", 1000), ("resile-test-low", -1000)):
        try:
            await job.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        except AlreadyExists:
            continue
    await job.submit(
        replicas={"min": 1, "max": 4}, resources=asking(0.3 * cpus), priority="resile-test-low"
    )
    first = await job.trains(world=4)
    await job.client.create(DEPLOYMENTS, urgent(replicas=2, cpus=0.6 * cpus))
    await job.trains(world=2, after=first)
    await job.condition(job.name, "Running", "2 of 4 nodes are running")
    await job.told(job.name, "was preempted")
    patch = {"spec": {"replicas": 0}}
    await job.client.patch(DEPLOYMENTS, "urgent", patch, subresource="scale")
    await job.trains(world=4, after=first)
    await job.finish()
    job.proof()


def urgent(*, replicas: int, cpus: float) -> dict[str, Any]:
    """A Deployment with a higher priority than the training: each pod needs two nodes' capacity."""
    container = {**SLEEP, "resources": asking(cpus)}
    return {
        "metadata": {"name": "urgent"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "urgent"}},
            "template": {
                "metadata": {"labels": {"app": "urgent"}},
                "spec": {
                    "priorityClassName": "resile-test-high",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }
