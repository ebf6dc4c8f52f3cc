"""Fixtures for tests with plain torchrun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.local.torchrun.launching import TorchrunJob


@pytest.fixture
def job(tmp_path: Path) -> Iterator[TorchrunJob]:
    """A job with a master, and nodes that are plain torchrun; ended with the test."""
    with closing(TorchrunJob(tmp_path)) as made:
        yield made
