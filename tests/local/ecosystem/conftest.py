"""Jobs that are ended with their test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.local.ecosystem.disturbed import Disturbed


@pytest.fixture
def disturbed(tmp_path: Path) -> Iterator[Disturbed]:
    with closing(Disturbed(tmp_path)) as made:
        yield made
