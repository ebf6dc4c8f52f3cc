"""An API server with the ElasticJob definition, an operator and stubs for kubelets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from resile.kube.client import KubeClient
from resile.kube.resources import CUSTOM_RESOURCES, ELASTIC_JOBS, NAMESPACES
from tests.kube.apiserver import ApiServer
from tests.kube.conftest import new_namespace
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn, standing_in

DEFINITION = Path(__file__).parents[3] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"


@pytest_asyncio.fixture
async def stage(server: ApiServer) -> AsyncIterator[Stage]:
    """A namespace of the test."""
    namespace = new_namespace()
    async with KubeClient.connect(kubeconfig=server.kubeconfig(namespace=namespace)) as client:
        await client.apply(CUSTOM_RESOURCES, yaml.safe_load(DEFINITION.read_text()))

        async def served() -> bool:
            await client.list(ELASTIC_JOBS)
            return True

        await eventually(served, "the cluster to know ElasticJobs")
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Stage(client)


@pytest_asyncio.fixture
async def kubelets(stage: Stage) -> AsyncIterator[StandIn]:
    async with standing_in(stage.client, namespace=stage.client.namespace) as standin:
        yield standin


@pytest.fixture
def operator(server: ApiServer, stage: Stage, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace."""
    namespace = stage.client.namespace
    with operating(server.kubeconfig(), tmp_path, "--no-elect", "-n", namespace) as operator:
        yield operator
