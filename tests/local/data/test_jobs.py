"""Real jobs: nothing hangs at the end of an epoch, and every sample of it is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.jobs import Job
from tests.local.ledgers import each_sample_counts_once

HERE = Path(__file__).parent


@pytest.mark.parametrize(("length", "batch"), [(13, 2), (9, 4)])
def test_ranks_that_run_out_of_data_do_not_hang_the_others(
    job: Job, tmp_path: Path, length: int, batch: int
) -> None:
    """The first leaves one rank with a sample less, the second leaves one with none at all."""
    node = job.start(
        "--standalone",
        script=str(HERE / "uneven.py"),
        nproc=2,
        endpoint=False,
        LENGTH=str(length),
        BATCH=str(batch),
        RESILE_LEDGER=str(tmp_path / "ledger"),
    )
    assert node.wait() == 0, node.output
    stream = each_sample_counts_once(tmp_path / "ledger", epochs=2)
    assert [epoch.trained for epoch in stream.epochs] == [length, length]
