"""A whole cluster with kubelets, an operator on it, and a namespace for each test.

What loses a machine or the API server needs this machine's cluster (`target` says which it may be).
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
"""Fixtures of tests that take parts of the cluster away, or count on all its room."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in namespaces of their own can run side by side; others have the cluster alone."""
    for item in items:
        if FOR_ALL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def machine() -> Cluster:
    """The cluster of this machine, of which parts can be lost."""
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
    """Of the test's own; gone with it."""
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.apply(CUSTOM_RESOURCES, yaml.safe_load(DEFINITION.read_text()))
    async with passing_namespace(kubeconfig) as name:
        yield name


@asynccontextmanager
async def passing_namespace(kubeconfig: str) -> AsyncIterator[str]:
    """A namespace while the block runs, on a cluster that knows, or will soon know, ElasticJobs."""
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        metadata = {"generateName": "resile-test-"}
        made = await client.create(NAMESPACES, {"metadata": metadata})
        name: str = made["metadata"]["name"]
        await eventually(lambda: client.list(ELASTIC_JOBS), "the cluster to know ElasticJobs")
        yield name
        await client.delete(NAMESPACES, name)

        # No pod has anything left to prove that it would need its grace for.
        for pod in (await client.list(PODS, namespace=name)).items:
            with suppress(NotFound):
                await client.delete(PODS, pod["metadata"]["name"], name, grace_seconds=1)

        async def no_pods() -> bool:
            return not (await client.list(PODS, namespace=name)).items

        # The rest goes in its own time; what the next test needs is room.
        await eventually(no_pods, f"the pods of {name} to be gone", patience=120)


@pytest.fixture
def folder() -> Iterator[Path]:
    with passing_folder() as folder:
        yield folder


@contextmanager
def passing_folder() -> Iterator[Path]:
    """Shared with the pods, which run as somebody else."""
    made = Path(tempfile.mkdtemp(prefix="resile-kube-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def operator(kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """One that looks after the test's namespace."""
    with operating(
        kubeconfig, tmp_path, "--no-elect", "-n", namespace, image=MASTER_IMAGE
    ) as operator:
        yield operator


@pytest_asyncio.fixture
async def job(kubeconfig: str, namespace: str, folder: Path) -> AsyncIterator[ClusterJob]:
    """A training that can be disturbed and is judged by its ledger."""
    async with KubeClient.connect(kubeconfig=kubeconfig, namespace=namespace) as client:
        yield ClusterJob(client, folder)
