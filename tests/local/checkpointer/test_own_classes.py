"""Values of a script's own classes survive a worker that is killed, without pickle."""

from __future__ import annotations

from pathlib import Path

import torch
from click.testing import CliRunner

from resile.cli.main import cli
from tests.local.jobs import Job

SCRIPT = Path(__file__).parent / "scripts" / "own_classes.py"

EXPECTED = (
    "2 Progress(phase=<Phase.FULL: 'full'>, parts=both, "
    "best=Best(step=4, phase=<Phase.FULL: 'full'>), losses=["
    "Loss(step=0, value=tensor([1.])), Loss(step=1, value=tensor([0.5000])), "
    "Loss(step=2, value=tensor([0.3333])), Loss(step=3, value=tensor([0.2500])), "
    "Loss(step=4, value=tensor([0.2000]))], "
    "by_phase={<Phase.WARMUP: 'warmup'>: 2, <Phase.FULL: 'full'>: 3})"
)


def test_a_killed_worker_has_them_again_and_an_export_has_plain_ones(job: Job) -> None:
    result, checkpoints = job.folder / "result", job.folder / "checkpoints"
    node = job.start(
        "--standalone",
        "--max-restarts=1",
        script=str(SCRIPT),
        nproc=1,
        endpoint=False,
        RESULT=str(result),
        CHECKPOINTS=str(checkpoints),
    )
    assert node.wait() == 0, node.output
    assert result.read_text() == EXPECTED
    file = job.folder / "state.pt"
    done = CliRunner().invoke(cli, ["ckpt", "export", str(checkpoints), str(file)])
    assert done.exit_code == 0, done.output
    found = torch.load(file, weights_only=True)["progress"]
    assert found.pop("losses")[4] == (4, torch.tensor([0.2]))
    assert found == {
        "phase": "FULL",
        "parts": "HEAD|BODY",
        "best": {"step": 4, "phase": "FULL"},
        "by_phase": {"WARMUP": 2, "FULL": 3},
    }
