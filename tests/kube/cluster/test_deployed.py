"""The operator as users deploy it: in a pod, with its own account, for all namespaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import Cluster
from resile.kube.client import KubeClient
from resile.kube.errors import NotFound
from resile.kube.resources import ELASTIC_JOBS, PODS
from tests.kube.cluster.conftest import passing_folder, passing_namespace
from tests.kube.cluster.target import MASTER_IMAGE
from tests.kube.cluster.training import ClusterJob
from tests.kube.operator.stage import eventually
from tests.local.commands import wait_for
from tests.programs import HELM, KUBECTL

pytestmark = [pytest.mark.usefixtures("deployed"), pytest.mark.timeout(600)]

DEPLOY = Path(__file__).parents[3] / "deploy"
SYSTEM = "resile-system"


class Console:
    """Runs installation commands on the cluster."""

    def __init__(self, kubeconfig: str) -> None:
        self._environment = {**os.environ, "KUBECONFIG": kubeconfig}

    def run(self, *words: str) -> None:
        subprocess.run(words, check=True, env=self._environment)

    def jobs(self) -> str:
        """The names of all jobs; empty on a cluster without the ElasticJob definition."""
        words = [KUBECTL, "get", "elasticjobs", "-A", "-o", "name"]
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True)
        return done.stdout


@contextmanager
def kustomized(console: Console) -> Iterator[None]:
    folder = str(DEPLOY / "dev")
    # Jobs of earlier tests are being deleted; any other job would be deleted here.
    wait_for(lambda: not console.jobs(), "a cluster without jobs", timeout=120)
    console.run(KUBECTL, "delete", "-k", folder, "--ignore-not-found")
    console.run(KUBECTL, "apply", "-k", folder)
    try:
        yield
    finally:
        console.run(KUBECTL, "delete", "-k", folder)


@contextmanager
def by_helm(console: Console) -> Iterator[None]:
    repository, tag = MASTER_IMAGE.rsplit(":", 1)
    image = f"image.repository={repository},image.tag={tag},image.pullPolicy=Always"
    where = ("-n", SYSTEM)
    chart = str(DEPLOY / "helm" / "resile")
    console.run(*(HELM, "install", "resile", chart, *where, "--create-namespace", "--set", image))
    try:
        yield
    finally:
        console.run(HELM, "uninstall", "resile", *where, "--wait")
        console.run(KUBECTL, "delete", "namespace", SYSTEM)


@pytest.fixture(scope="module", params=[kustomized, by_helm])
def deployed(request: pytest.FixtureRequest, machine: Cluster, kubeconfig: str) -> Iterator[None]:
    """Deploy the operator on a cluster that has nothing of Resile's but its image."""
    console = Console(kubeconfig)
    with request.param(console):
        rollout = ("rollout", "status", "deployment/resile-operator", "--timeout=120s")
        console.run(KUBECTL, "-n", SYSTEM, *rollout)
        yield
        console.run(KUBECTL, "-n", SYSTEM, "logs", "deployment/resile-operator", "--tail=50")


@pytest_asyncio.fixture
async def jobs(kubeconfig: str) -> AsyncIterator[tuple[ClusterJob, ClusterJob]]:
    """Two jobs of one name, in two namespaces."""
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(namesake(kubeconfig)),
            await stack.enter_async_context(namesake(kubeconfig)),
        )


@asynccontextmanager
async def namesake(kubeconfig: str) -> AsyncIterator[ClusterJob]:
    async with passing_namespace(kubeconfig) as namespace:
        with passing_folder() as folder:
            async with KubeClient.connect(kubeconfig=kubeconfig, namespace=namespace) as client:
                yield ClusterJob(client, folder)


async def test_jobs_of_one_name_in_two_namespaces_do_not_touch_each_other(
    jobs: tuple[ClusterJob, ClusterJob],
) -> None:
    one, other = jobs
    await one.submit(spec={"cleanPodPolicy": "All"})
    await other.submit(spec={"ttlSecondsAfterFinished": 1})
    first, undisturbed = await one.trains(world=2), await other.trains(world=2)
    await one.client.delete(PODS, "train-worker-1")
    await one.trains(world=2, after=first)
    await other.goes_on()
    assert other.written.round == undisturbed
    await one.finish()
    await other.goes_on()
    (other.folder / "finish").touch()
    await eventually(lambda: gone(other), "the job to be deleted some time after its end")
    await eventually(lambda: no_pods(other), "the pods of the deleted job to go")
    await eventually(lambda: no_pods(one), "all pods to be cleaned away")
    assert (await one.status(one.name))["phase"] == "Succeeded"
    for job in jobs:
        job.proof()


async def gone(job: ClusterJob) -> bool:
    try:
        await job.client.get(ELASTIC_JOBS, job.name)
    except NotFound:
        return True
    return False


async def no_pods(job: ClusterJob) -> bool:
    found = await job.client.list(PODS, namespace=job.client.namespace)
    return not found.items
