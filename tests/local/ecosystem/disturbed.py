"""Jobs of the scripts beside this file: started, disturbed, and what they came to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.local.commands import PATIENCE, wait_for
from tests.local.jobs import Job, Step

SCRIPTS = Path(__file__).parent / "scripts"


class Disturbed(Job):
    """A job that writes down its steps and its result."""

    def train(self, script: str, *flags: str, nproc: int = 2, **environment: str) -> None:
        """One more node of it."""
        self.start(
            "--max-restarts",
            "5",
            *flags,
            script=str(SCRIPTS / script),
            nproc=nproc,
            RESULT=str(self.folder / "result"),
            OUTPUT=str(self.folder / "output"),
            RESILE_LEDGER=str(self.folder / "ledger"),
            **environment,
        )

    def reached(self, step: int, *, world: int, round: int = 0) -> int:
        """Wait until all ranks did this step in a round after ``round``; returns that round."""

        def found() -> int:
            done = [r for r in self.records() if (r.what, r.step, r.world) == ("step", step, world)]
            rounds = {r.round for r in done if r.round > round}
            return max((n for n in rounds if sum(r.round == n for r in done) == world), default=0)

        return wait_for(found, f"step {step} with {world} workers:\n{self.nodes[0].output[-5000:]}")

    def kill_at(self, step: int, *, rank: int, world: int = 2, round: int = 0) -> int:
        """Kill a worker once all have done a step; returns the round in which that was."""
        latest = self.reached(step, world=world, round=round)
        os.kill(self.pid_of(rank, round=latest), signal.SIGKILL)
        return latest

    def ends(self) -> dict[str, Any]:
        """Wait for the end; returns what training came to."""
        for node in self.nodes:
            wait_for(lambda n=node: n.process.poll() is not None, "the end", timeout=2 * PATIENCE)
            assert node.process.returncode == 0, node.output[-5000:]
        result: dict[str, Any] = json.loads((self.folder / "result").read_text())
        return result

    def resumptions(self) -> list[Step]:
        """Of the rounds that came to their end: from where."""
        return [r for r in self.records() if r.what.startswith("resumed") and r.rank == 0]

    def hurry(self) -> None:
        """From now on steps take no longer than they must."""
        (self.folder / "hurry").touch()

    def lose_node(self, index: int) -> None:
        """Kill a node and everything on it."""
        node = self.nodes.pop(index)
        node.kill()
        node.process.wait()

    def trained_each_sample_once(self) -> None:
        """The ledger says so, of every epoch."""
        check = subprocess.run(
            [sys.executable, "-m", "resile", "data", "check", str(self.folder / "ledger")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert check.returncode == 0, check.stdout + check.stderr
