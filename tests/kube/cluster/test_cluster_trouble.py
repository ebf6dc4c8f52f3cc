"""Failures of the cluster itself: a machine is lost, the API server is down, the operator dead."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster
from devcluster.layout import ETCD_URL
from resile.kube.resources import PODS
from tests.kube.cluster.target import MASTER_IMAGE
from tests.kube.cluster.training import ClusterJob, apart
from tests.kube.history import forget_history
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import eventually

pytestmark = pytest.mark.timeout(600)

AWAY_SECONDS = 20


@pytest.fixture
def whole(machine: Cluster, namespace: str) -> Iterator[Cluster]:
    """The cluster, repaired at the end whatever the test broke; before the namespace is deleted,
    because pods of a lost machine are not deleted."""
    yield machine
    Cluster.up(nodes=len(machine.nodes))


async def test_a_lost_machines_pods_are_replaced_and_the_others_train_on(
    whole: Cluster, operator: OperatorProcess, job: ClusterJob
) -> None:
    on_a = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}
    await job.submit(
        replicas={"min": 1, "max": 2},
        template=apart(),
        spec={"master": {"template": {"spec": on_a}}},
    )
    first = await job.trains(world=2)
    pods = {pod["spec"]["nodeName"]: pod for pod in await job.pods(job.name)}
    assert set(pods) == {"node-a", "node-b"}
    lost = pods["node-b"]["metadata"]["name"]
    await asyncio.to_thread(whole.stop_node, "node-b")
    alone = await job.trains(world=1, after=first)
    await job.trains(world=2, after=alone)
    survivors = {pod["metadata"]["name"]: pod for pod in await job.pods(job.name)}
    new = next(
        pod
        for name, pod in survivors.items()
        if name not in (lost, pods["node-a"]["metadata"]["name"])
    )
    assert new["spec"]["nodeName"] == "node-a"
    status = await job.status(job.name)
    assert [one["host"] for one in status["troubledHosts"]] == ["node-b"]
    await job.finish()
    job.proof()


async def test_training_does_not_notice_that_the_api_server_is_away_and_forgot_its_history(
    whole: Cluster, operator: OperatorProcess, job: ClusterJob
) -> None:
    await job.submit()
    first = await job.trains(world=2)
    await asyncio.to_thread(whole.stop, "apiserver")
    await asyncio.sleep(AWAY_SECONDS)  # the test is about an outage of that length
    await job.goes_on()
    assert job.written.round == first
    await asyncio.to_thread(forget_history, ETCD_URL)
    await asyncio.to_thread(whole.start, "apiserver")
    await eventually(lambda: job.job(job.name), "the API server to be back")
    await job.client.delete(PODS, "train-worker-1")
    await job.trains(world=2, after=first)
    assert operator.running
    await job.finish()
    job.proof()


async def test_an_operator_killed_in_the_middle_of_a_scale_up_is_carried_on_by_the_next(
    kubeconfig: str, namespace: str, job: ClusterJob, tmp_path: Path
) -> None:
    flags = ("--no-elect", "-n", namespace)
    with operating(kubeconfig, tmp_path, *flags, image=MASTER_IMAGE) as operator:
        await job.submit(replicas={"min": 1, "max": 3, "wanted": 1})
        first = await job.trains(world=1)
        await job.scale(3)

        async def decided() -> bool:
            return (await job.status(job.name))["roles"]["worker"]["wanted"] == 3

        await eventually(decided, "the scale-up to be decided")
        operator.end(signal.SIGKILL)
        await job.goes_on()
    with operating(kubeconfig, tmp_path, *flags, image=MASTER_IMAGE):
        await job.trains(world=3, after=first)
        assert sorted((await job.nodes(job.name)).values()) == [0, 1, 2]
        await job.finish()
        job.proof()
