"""A client in a namespace of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from resile.kube.client import KubeClient
from resile.kube.resources import NAMESPACES
from tests.kube.apiserver import ApiServer
from tests.kube.conftest import new_namespace


@pytest_asyncio.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    namespace = new_namespace()
    kubeconfig = server.kubeconfig(namespace=namespace)
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield client
