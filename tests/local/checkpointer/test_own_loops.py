"""A custom loop over DataLoaders gives the same bits with and without kills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.local.commands import PATIENCE, wait_for
from tests.local.jobs import Job

SCRIPT = Path(__file__).parent / "scripts" / "own_loop.py"

EPOCH = 6
"""Steps of an epoch."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: loader processes make sockets in it, with at most 107 bytes."""
    with TemporaryDirectory(prefix="resile-") as name:
        yield Path(name)


def trained(folder: Path, loaders: str, *, dies_at: list[int]) -> dict[str, Any]:
    """The result of a job with one worker, which dies after these steps, one in each round."""
    folder.mkdir()
    with closing(Job(folder)) as job:
        node = job.start(
            "--standalone",
            "--max-restarts=9",
            script=str(SCRIPT),
            nproc=1,
            endpoint=False,
            LOADERS=loaders,
            DIES_AT=",".join(map(str, dies_at)),
            RESULT=str(folder / "result.json"),
        )
        wait_for(lambda: node.process.poll() is not None, "the end", timeout=3 * PATIENCE)
        assert node.process.returncode == 0, node.output
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.parametrize(
    ("loaders", "kills"),
    [
        ("alone", [EPOCH, 2 * EPOCH + 3]),
        ("lasting,alone,lists,second", [EPOCH + 1]),
    ],
)
def test_a_killed_worker_draws_what_it_would_have_drawn(
    folder: Path, loaders: str, kills: list[int]
) -> None:
    """Loaders without, with, and with persistent worker processes, one or several in the loop.

    Killed after the last step of an epoch, after the first, and in the middle.
    """
    undisturbed = trained(folder / "undisturbed", loaders, dies_at=[])
    killed = trained(folder / "killed", loaders, dies_at=kills)
    assert (undisturbed.pop("rounds"), killed.pop("rounds")) == (1, len(kills) + 1)
    assert killed == undisturbed
