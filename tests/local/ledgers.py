"""The final check of a test that trains: each sample of each epoch counts exactly once."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from resile.ledger import check, read_ledger
from resile.ledger.check import StreamVerdict
from tests.warm_commands import resile_command

__all__ = ["data_check", "each_sample_counts_once"]


def each_sample_counts_once(folder: Path, *, epochs: int = 0) -> StreamVerdict:
    """Prove it from a ledger, like ``resile data check``, for this many complete epochs."""
    verdict = check(read_ledger(folder), epochs=epochs)
    assert verdict.sound, verdict
    (stream,) = verdict.streams
    return stream


def data_check(
    *words: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``resile data check`` to its end."""
    return subprocess.run(
        [*resile_command(), "data", "check", *words],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
