"""Jobs that are moved, and the result of an undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.local.migrate.moving import Moved


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    """A job that is ended with the test."""
    with closing(Moved(tmp_path)) as made:
        yield made


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The result of two undisturbed workers."""
    with closing(Moved(tmp_path_factory.mktemp("undisturbed"))) as job:
        job.train()
        assert job.nodes[0].wait() == 0, job.nodes[0].output
        return job.result
