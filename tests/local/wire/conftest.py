"""A master shared by the tests of a file: each has to leave it alive and empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local.wire.masters import MasterProcess, running_master


@pytest.fixture(scope="module")
def shared_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MasterProcess]:
    folder = tmp_path_factory.mktemp("master")
    conf = "last_call=0.2,forming_timeout=2"
    with running_master(folder, "--nnodes", "1:64", "--rdzv-conf", conf) as master:
        yield master


@pytest.fixture
def master(shared_master: MasterProcess) -> Iterator[MasterProcess]:
    """The shared master, checked afterwards."""
    yield shared_master
    assert shared_master.alive, f"the master died:\n{shared_master.log}"
    assert "Traceback" not in shared_master.log
