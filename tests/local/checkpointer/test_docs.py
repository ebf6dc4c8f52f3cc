"""The examples in the page on checkpoints run as they are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from resile.train.data import ElasticSampler
from tests.local.data.documentation import run, written


def test_the_lines_of_a_script_and_of_one_that_uses_an_exported_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    block = written("checkpoints.md", 'Checkpointer("checkpoints/"')
    for start, n in ((0, 120), (100, 130)):
        model = nn.Linear(3, 3)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        script = {
            "model": model,
            "opt": opt,
            "sched": torch.optim.lr_scheduler.StepLR(opt, 7),
            "sampler": ElasticSampler(range(1000), batch_size=4, num_replicas=1, rank=0),
            "n": n,
        }
        run(block, script)
        assert script["start"] == start
        assert script["state"]["step"] == n
        script["ckpt"].wait()
        script["ckpt"].close()
    export = [sys.executable, "-m", "resile", "ckpt", "export", "checkpoints/", "model.pt"]
    subprocess.run([*export, "--only", "model"], check=True, capture_output=True)
    other = nn.Linear(3, 3)
    run(written("checkpoints.md", 'torch.load("model.pt"'), {"torch": torch, "model": other})
    assert torch.equal(other.weight, model.weight)
