"""A whole cluster with kubelets, an operator on it, and a namespace for each test.

Tests that stop a machine or the API server need this machine's cluster (see `target`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster import Cluster
from devcluster.errors import NotFound as NoCluster
from resile.kube.client import KubeClient
from resile.kube.errors import NotFound
from resile.kube.resources import CUSTOM_RESOURCES, ELASTIC_JOBS, NAMESPACES, PODS
from tests.kube.cluster.target import MASTER_IMAGE, NAMED_CLUSTER
from tests.kube.cluster.training import ClusterJob
from tests.kube.conftest import LEFT_OUT
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import eventually

DEFINITION = Path(__file__).parents[3] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"

FOR_ALL = {"machine", "cpus"}
"""Fixtures of tests that stop parts of the cluster, or need all of its capacity."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in separate namespaces can run in parallel; the others run alone."""
    for item in items:
        if FOR_ALL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def machine() -> Cluster:
    """The cluster of this machine, of which parts can be stopped."""
    if NAMED_CLUSTER:
        pytest.skip("this needs the cluster of `make cluster`")
    try:
        return Cluster.find()
    except NoCluster as error:
        pytest.skip(f"{LEFT_OUT}: {error}")


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    if NAMED_CLUSTER:
        return NAMED_CLUSTER
    try:
        return str(Cluster.find().kubeconfig)
    except NoCluster as error:
        pytest.skip(f"{LEFT_OUT}: {error}")


@pytest_asyncio.fixture
async def namespace(kubeconfig: str) -> AsyncIterator[str]:
    """A namespace for the test, deleted after it."""
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.apply(CUSTOM_RESOURCES, yaml.safe_load(DEFINITION.read_text()))
    async with passing_namespace(kubeconfig) as name:
        yield name


@asynccontextmanager
async def passing_namespace(kubeconfig: str) -> AsyncIterator[str]:
    """Create a namespace during the block, on a cluster that has ElasticJobs, or will have soon."""
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        metadata = {"generateName": "resile-test-"}
        made = await client.create(NAMESPACES, {"metadata": metadata})
        name: str = made["metadata"]["name"]
        await eventually(lambda: client.list(ELASTIC_JOBS), "the cluster to know ElasticJobs")
        yield name
        await client.delete(NAMESPACES, name)

        # The pods need no grace period any more.
        for pod in (await client.list(PODS, namespace=name)).items:
            with suppress(NotFound):
                await client.delete(PODS, pod["metadata"]["name"], name, grace_seconds=1)

        async def no_pods() -> bool:
            return not (await client.list(PODS, namespace=name)).items

        # The rest is deleted in the background; the next test only needs capacity.
        await eventually(no_pods, f"the pods of {name} to be gone", patience=120)


@pytest.fixture
def folder() -> Iterator[Path]:
    with passing_folder() as folder:
        yield folder


@contextmanager
def passing_folder() -> Iterator[Path]:
    """A folder shared with the pods, which run as another user."""
    made = Path(tempfile.mkdtemp(prefix="resile-kube-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def operator(kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace."""
    with operating(
        kubeconfig, tmp_path, "--no-elect", "-n", namespace, image=MASTER_IMAGE
    ) as operator:
        yield operator


@pytest_asyncio.fixture
async def job(kubeconfig: str, namespace: str, folder: Path) -> AsyncIterator[ClusterJob]:
    """A training job that can be disturbed, and is verified by its ledger."""
    async with KubeClient.connect(kubeconfig=kubeconfig, namespace=namespace) as client:
        yield ClusterJob(client, folder)
