"""Scaling, suspension, other controllers, other namespaces."""

from __future__ import annotations

import pytest

from resile.kube.resources import ELASTIC_JOBS, NAMESPACES, PODS
from resile.operator.build.labels import MASTER
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

pytestmark = pytest.mark.usefixtures("operator")

ELASTIC = {"replicas": {"min": 1, "max": 4, "wanted": 2}}


async def scale(stage: Stage, size: int) -> None:
    body = {"spec": {"replicas": size}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body, subresource="scale")


async def ranks(stage: Stage) -> list[int]:
    return sorted((await stage.nodes("digits")).values())


async def test_the_scale_subresource_changes_the_size_within_its_bounds(
    stage: Stage, kubelets: StandIn
) -> None:
    await stage.create("digits", ELASTIC)
    await stage.has_nodes("digits", 2)
    await scale(stage, 4)
    await stage.has_nodes("digits", 4)
    await scale(stage, 9)
    await stage.condition("digits", "Scaling", "SizeReached")
    assert await ranks(stage) == [0, 1, 2, 3]
    await scale(stage, 0)
    await stage.has_nodes("digits", 1)
    assert await ranks(stage) == [0], "the highest ranks leave first, and never below min"


async def test_a_suspended_job_has_no_pods_and_comes_back(stage: Stage, kubelets: StandIn) -> None:
    await stage.create("digits", ELASTIC)
    await stage.has_nodes("digits", 2)
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": True}})
    await stage.has_phase("digits", "Suspended")
    await stage.has_nodes("digits", 0)

    async def no_master() -> bool:
        return not await stage.pods("digits", MASTER)

    await eventually(no_master, "the master to be gone")
    await stage.client.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": False}})
    await stage.has_nodes("digits", 2)
    await stage.has_phase("digits", "Running")
    status = await stage.status("digits")
    assert status.get("spent", 0) == 0, "no budget is spent on it"


async def test_a_job_that_begins_suspended_has_nothing_until_it_is_resumed(
    stage: Stage, kubelets: StandIn
) -> None:
    await stage.create("digits", ELASTIC, suspend=True)
    await stage.has_phase("digits", "Suspended")
    everything = await stage.client.list(PODS, namespace=stage.client.namespace)
    assert everything.items == []


async def test_a_job_of_another_controller_is_left_alone(stage: Stage, kubelets: StandIn) -> None:
    await stage.create("theirs", ELASTIC, managedBy="kueue.x-k8s.io/multikueue")
    await stage.create("digits", ELASTIC)
    await stage.has_nodes("digits", 2)
    assert await stage.pods("theirs") == []
    assert await stage.status("theirs") == {}


async def test_jobs_of_one_name_in_two_namespaces_do_not_touch(
    stage: Stage, kubelets: StandIn
) -> None:
    other = f"{stage.client.namespace}-too"
    await stage.client.create(NAMESPACES, {"metadata": {"name": other}})
    job = await stage.create("digits", ELASTIC)
    metadata = {"name": "digits", "namespace": other}
    await stage.client.create(ELASTIC_JOBS, {"metadata": metadata, "spec": job["spec"]})
    await stage.has_nodes("digits", 2)
    await stage.client.delete(PODS, "digits-worker-0")
    await stage.has_nodes("digits", 2)
    theirs = await stage.client.list(PODS, namespace=other)
    assert theirs.items == [], "this operator looks after one namespace"
