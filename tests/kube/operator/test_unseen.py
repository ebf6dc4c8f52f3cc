"""Pods that appear and vanish unseen between two reconciliations: no id is used twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from resile.kube.client import KubeClient
from resile.kube.errors import ApiUnreachable
from resile.kube.kubeconfig import find_cluster
from resile.kube.resources import PODS, KubeObject, Resource
from resile.kube.runtime.events import EventRecorder
from resile.operator.build.labels import job_key
from resile.operator.context import OperatorContext, OperatorSettings
from resile.operator.events import JobEventReporter
from resile.operator.informers import Informers, Key
from resile.operator.main import running_alongside
from resile.operator.reconciler import Reconciler
from resile.wire.http_client import master_session
from tests.kube.apiserver import ApiServer
from tests.kube.operator.stage import Stage, eventually

pytestmark = pytest.mark.timeout(120)

TWO = {"replicas": {"min": 1, "max": 4, "wanted": 2}}


class Hesitant:
    """An operator that watches the cluster, and reconciles only when the test calls it."""

    def __init__(self, means: OperatorContext) -> None:
        self.world = means.world
        self._reconciler = Reconciler(means)
        self._key: Key = (means.client.namespace, "digits")

    async def look(self) -> None:
        await self._reconciler.reconcile(self._key)

    async def knows(self, *pods: str) -> None:
        """Wait until it has observed the job and exactly these pods of its nodes."""

        async def heard() -> bool:
            job = self.world.jobs.store.get(self._key)
            if job is None:
                return False
            nodes = self.world.nodes_of(self._key, job["metadata"]["uid"])
            return sorted(pod["metadata"]["name"] for pod in nodes) == sorted(pods)

        await eventually(heard, f"the operator to know {pods}")

    async def is_abreast(self, stage: Stage) -> None:
        """Wait until it has the job's latest version."""

        async def heard() -> bool:
            known = self.world.jobs.store.get(self._key)
            return known is not None and _version(known) == _version(await stage.job("digits"))

        await eventually(heard, "the operator to know the job as it is")

    async def close(self) -> None:
        await self._reconciler.close()


def _version(found: KubeObject) -> str:
    version: str = found["metadata"]["resourceVersion"]
    return version


def _nobody_is_told(key: Key) -> None:
    """Do nothing: the test triggers each reconciliation."""


@asynccontextmanager
async def hesitating(client: KubeClient) -> AsyncIterator[Hesitant]:
    world = Informers.create(client, namespace=client.namespace, changed=_nobody_is_told)
    recorder = EventRecorder(client, owner_of=job_key)
    settings = OperatorSettings(namespace=client.namespace)
    async with (
        master_session() as session,
        running_alongside(one.run() for one in world.reflectors),
    ):
        for reflector in world.reflectors:
            await reflector.synced.wait()
        operator = Hesitant(
            OperatorContext(
                client=client,
                world=world,
                session=session,
                reporter=JobEventReporter(recorder, world),
                settings=settings,
                image="resile:test",
                requeue=_nobody_is_told,
            )
        )
        try:
            yield operator
        finally:
            await operator.close()


class Deaf(KubeClient):
    """Loses the response to the first creation of one pod."""

    unheard = ""

    async def create(self, kind: Resource, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        made = await super().create(kind, obj, dry_run=dry_run)
        if kind is PODS and made["metadata"]["name"] == self.unheard:
            self.unheard = ""
            raise ApiUnreachable("the answer got lost")
        return made


@pytest_asyncio.fixture
async def operator(stage: Stage) -> AsyncIterator[Hesitant]:
    async with hesitating(stage.client) as operator:
        yield operator


@pytest_asyncio.fixture
async def other(stage: Stage) -> AsyncIterator[Hesitant]:
    async with hesitating(stage.client) as operator:
        yield operator


async def begun(stage: Stage, operator: Hesitant) -> None:
    """A job whose two nodes were created just now, and are not in its status yet."""
    await stage.create("digits", TWO)
    await operator.is_abreast(stage)
    await operator.look()
    await operator.knows("digits-worker-0", "digits-worker-1")
    nodes = (await stage.status("digits"))["nodes"]
    assert not any(node.get("seen") for node in nodes)


async def test_a_node_deleted_before_it_was_seen_is_replaced_under_another_id(
    stage: Stage, operator: Hesitant
) -> None:
    await begun(stage, operator)
    await stage.client.delete(PODS, "digits-worker-1")
    await operator.knows("digits-worker-0")
    await operator.look()
    assert await stage.nodes("digits") == {0: 0, 2: 1}
    said = [one["sentence"] for one in (await stage.status("digits"))["decisions"]]
    assert any("digits-worker-1 (rank 1) was deleted" in sentence for sentence in said)


async def test_one_that_takes_over_knows_what_it_watched_come_and_go(
    stage: Stage, operator: Hesitant, other: Hesitant
) -> None:
    await begun(stage, operator)
    await other.knows("digits-worker-0", "digits-worker-1")
    await stage.client.delete(PODS, "digits-worker-1")
    await other.knows("digits-worker-0")
    await other.is_abreast(stage)
    await other.look()
    assert await stage.nodes("digits") == {0: 0, 2: 1}


async def test_a_node_made_again_from_an_order_that_was_out_of_date_is_put_out(
    stage: Stage, operator: Hesitant
) -> None:
    await begun(stage, operator)
    first = await stage.client.get(PODS, "digits-worker-1")
    await stage.client.delete(PODS, "digits-worker-1")
    again = {
        **first,
        "metadata": {
            key: first["metadata"][key]
            for key in ("name", "namespace", "labels", "annotations", "ownerReferences")
            if key in first["metadata"]
        },
    }
    second = await stage.client.create(PODS, again)

    async def heard() -> bool:
        known = operator.world.pods.store.get((stage.client.namespace, "digits-worker-1"))
        return known is not None and known["metadata"]["uid"] == second["metadata"]["uid"]

    await eventually(heard, "the operator to know the second pod")
    await operator.look()
    await operator.knows("digits-worker-0")
    await operator.look()
    assert await stage.nodes("digits") == {0: 0, 2: 1}


async def test_a_node_whose_making_went_unheard_is_not_made_again_once_it_is_deleted(
    server: ApiServer, stage: Stage
) -> None:
    cluster = find_cluster(kubeconfig=server.kubeconfig(namespace=stage.client.namespace))
    client = Deaf(cluster)
    client.unheard = "digits-worker-1"
    async with client, hesitating(client) as operator:
        await stage.create("digits", TWO)
        await operator.is_abreast(stage)
        await operator.look()
        await operator.knows("digits-worker-0", "digits-worker-1")
        await operator.look()
        await stage.client.delete(PODS, "digits-worker-1")
        await operator.knows("digits-worker-0")
        await operator.look()
        assert await stage.nodes("digits") == {0: 0, 2: 1}
