"""A user with a terminal, an empty home and a kubeconfig."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.apiserver import ApiServer
from tests.kube.cli.console import Console
from tests.kube.operator.conftest import kubelets, operator, stage
from tests.kube.operator.stage import Stage

__all__ = ["console", "kubelets", "operator", "stage"]


@pytest.fixture
def console(server: ApiServer, stage: Stage, tmp_path: Path) -> Console:
    """A console whose kubeconfig names the test's namespace."""
    return Console(tmp_path, kubeconfig=server.kubeconfig(namespace=stage.client.namespace))
