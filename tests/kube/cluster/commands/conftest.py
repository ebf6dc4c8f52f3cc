"""A user of a whole cluster, whose connection to it can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.kube.cli.console import Console
from tests.kube.cluster.commands.line import Line


@pytest_asyncio.fixture
async def line() -> AsyncIterator[Line]:
    async with Line().open() as line:
        yield line


@pytest.fixture
def console(kubeconfig: str, line: Line, tmp_path: Path) -> Console:
    return Console(tmp_path, kubeconfig=kubeconfig, more={"HTTPS_PROXY": line.url, "NO_PROXY": ""})
