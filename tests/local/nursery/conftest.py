"""Fixtures for nursery tests."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file into the folder in which workers run."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return write
