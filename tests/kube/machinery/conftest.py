"""One API server for each file of tests, and a client in a namespace of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.kinds import NAMESPACES
from tests.kube.apiserver import ApiServer, running

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("kube")) as server:
        yield server


@pytest_asyncio.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    namespace = f"test-{next(NUMBERS)}"
    kubeconfig = server.kubeconfig(namespace=namespace)
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield client
