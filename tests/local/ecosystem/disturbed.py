"""Jobs of the scripts in this folder: started, disturbed, and their results."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.local import jobs
from tests.local.commands import PATIENCE, wait_for
from tests.local.ledgers import data_check
from tests.local.training import Recorded

SCRIPTS = Path(__file__).parent / "scripts"

PRELOADED = {
    "hf_trainer.py": "torch,accelerate,transformers.trainer,transformers.models.gpt2.modeling_gpt2",
    "lightning_trainer.py": "torch,lightning.pytorch",
}
"""Otherwise each worker imports them for six seconds, in every round. In a training that is not
disturbed the workers import them themselves, as in scripts of users."""


class Disturbed(Recorded):
    """A job of another library's trainer."""

    preloads = True

    def train(self, script: str, *flags: str, nproc: int = 2, **environment: str) -> None:
        """Start one more node."""
        preload = ("--preload", PRELOADED[script]) if self.preloads else ()
        self.start(
            "--max-restarts",
            "5",
            *preload,
            *flags,
            script=str(SCRIPTS / script),
            nproc=nproc,
            RESULT=str(self.folder / "result"),
            OUTPUT=str(self.folder / "output"),
            RESILE_LEDGER=str(self.ledger),
            PYTHONPATH=str(jobs.SCRIPTS),
            **environment,
        )

    def kill_at(self, step: int, *, rank: int, world: int = 2, round: int = 0) -> int:
        """Kill a worker once all have done a step; returns the current round."""
        latest = self.reached(step, world=world, round=round)
        os.kill(self.pid_of(rank, round=latest), signal.SIGKILL)
        return latest

    def ends(self) -> dict[str, Any]:
        """Wait for the end; returns the result of the training."""
        for node in self.nodes:
            wait_for(lambda n=node: n.process.poll() is not None, "the end", timeout=2 * PATIENCE)
            assert node.process.returncode == 0, node.output[-5000:]
        result: dict[str, Any] = json.loads((self.folder / "result").read_text())
        return result

    def lose_node(self, index: int) -> None:
        """Kill a node and everything on it."""
        node = self.nodes.pop(index)
        node.kill()
        node.process.wait()

    def trained_each_sample_once(self) -> None:
        """Check the ledger of every epoch."""
        proof = data_check(str(self.ledger))
        assert proof.returncode == 0, proof.stdout + proof.stderr
