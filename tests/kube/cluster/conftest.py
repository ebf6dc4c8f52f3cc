"""A whole cluster with kubelets, an operator on it, and a namespace for each test.

The cluster is the one that $RESILE_TEST_KUBECONFIG names, or that of `make cluster`. What loses a
machine or the API server needs the latter.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster import Cluster
from devcluster.errors import NotFound as NoCluster
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import NotFound
from resile.platform.kubernetes.kinds import CUSTOM_RESOURCES, ELASTIC_JOBS, NAMESPACES
from tests.kube.cluster.training import ClusterJob
from tests.kube.conftest import LEFT_OUT
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import eventually

DEFINITION = Path(__file__).parents[3] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"
MASTER_IMAGE = "127.0.0.1:5000/resile:dev"
NAMED = "RESILE_TEST_KUBECONFIG"


@pytest.fixture(scope="session")
def machine() -> Cluster:
    """The cluster of this machine, of which parts can be lost."""
    try:
        return Cluster.find()
    except NoCluster as error:
        pytest.skip(f"{LEFT_OUT}: {error}")


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    if named := os.environ.get(NAMED):
        return named
    try:
        return str(Cluster.find().kubeconfig)
    except NoCluster as error:
        pytest.skip(f"{LEFT_OUT}: {error}")


@pytest_asyncio.fixture
async def namespace(kubeconfig: str) -> AsyncIterator[str]:
    """Of the test's own; gone with it."""
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.apply(CUSTOM_RESOURCES, yaml.safe_load(DEFINITION.read_text()))
        metadata = {"generateName": "resile-test-"}
        made = await client.create(NAMESPACES, {"metadata": metadata})
        name: str = made["metadata"]["name"]
        await eventually(lambda: client.list(ELASTIC_JOBS), "the cluster to know ElasticJobs")
        yield name
        await client.delete(NAMESPACES, name)

        async def gone() -> bool:
            try:
                await client.get(NAMESPACES, name)
            except NotFound:
                return True
            return False

        await eventually(gone, f"the namespace {name} to be gone", patience=240)


@pytest.fixture
def folder() -> Iterator[Path]:
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
