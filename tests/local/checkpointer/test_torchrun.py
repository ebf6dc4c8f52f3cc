"""The same script under plain torchrun: saved in the background, restored from storage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from tests.checkpoints import newest_whole
from tests.local.jobs import SCRIPTS
from tests.local.ledgers import each_sample_counts_once
from tests.local.training import STEPS_AN_EPOCH, TRAINER

SCRIPT = SCRIPTS / TRAINER


def torchrun(folder: Path, *, nproc: int, steps: int) -> subprocess.CompletedProcess[str]:
    """One run to its end; workers that hang are ended with it."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nproc)),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(SCRIPT)),
        ],
        env={
            **os.environ,
            "STEPS": str(steps),
            "STEPS_FILE": str(folder / "steps.jsonl"),
            "RESULT": str(folder / f"result-{steps}"),
            "CHECKPOINTS": str(folder / "checkpoints"),
            "RESILE_LEDGER": str(folder / "ledger"),
            "TMPDIR": str(folder),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def test_a_run_goes_on_where_the_last_one_saved(tmp_path: Path) -> None:
    first = torchrun(tmp_path, nproc=2, steps=20)
    assert first.returncode == 0, first.stderr
    assert "start it with 'resile run' to restore from memory" in first.stderr
    assert newest_whole(CheckpointCatalog(open_storage(tmp_path / "checkpoints"))).step == 20
    second = torchrun(tmp_path, nproc=1, steps=30)
    assert second.returncode == 0, second.stderr
    assert "resumed at step 20 from storage" in second.stderr
    elsewhere = tmp_path / "undisturbed"
    elsewhere.mkdir()
    undisturbed = torchrun(elsewhere, nproc=1, steps=30)
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert (tmp_path / "result-30").read_text() == (elsewhere / "result-30").read_text()
    assert each_sample_counts_once(tmp_path / "ledger", epochs=30 // STEPS_AN_EPOCH).steps == 30
