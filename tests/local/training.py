"""Jobs that train a model on data, with snapshots and a ledger: disturbed, and then verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from resile.ledger.check import StreamVerdict
from tests.local.commands import wait_for
from tests.local.jobs import Job, NodeProcess, Step
from tests.local.ledgers import each_sample_counts_once

__all__ = ["ENDLESS", "STEPS", "STEPS_AN_EPOCH", "TRAINER", "Recorded", "Trained", "trained"]

TRAINER = "trainer.py"
STEPS = 60
STEPS_AN_EPOCH = 8
ENDLESS = 1_000_000
"""Steps of a job that ends on the test's request."""


class Recorded(Job):
    """A job whose script records its steps with ``scripts/recording.py``."""

    def reached(self, step: int, *, world: int, round: int = 0) -> int:
        """Wait until all ranks did this step in a round after ``round``; returns that round."""

        def found() -> int:
            done = [r for r in self.records() if (r.what, r.step, r.world) == ("step", step, world)]
            rounds = {r.round for r in done if r.round > round}
            return max((n for n in rounds if sum(r.round == n for r in done) == world), default=0)

        return wait_for(found, f"step {step} with {world} workers:\n{self.nodes[0].output[-5000:]}")

    def resumptions(self) -> list[Step]:
        """The records of rounds that resumed: from where."""
        return [r for r in self.records() if r.what.startswith("resumed") and r.rank == 0]

    def hurry(self) -> None:
        """Let steps run at full speed from now on."""
        (self.folder / "hurry").touch()

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"


class Trained(Recorded):
    """A job of ``scripts/trainer.py``."""

    def train(
        self, *flags: str, nproc: int = 2, steps: int = STEPS, **environment: str
    ) -> NodeProcess:
        """Start one more node."""
        environment.setdefault("CHECKPOINTS", str(self.folder / "checkpoints"))
        return self.start(
            *("--max-restarts", "5", *flags),
            script=TRAINER,
            nproc=nproc,
            STEPS=str(steps),
            RESULT=str(self.folder / "result"),
            RESILE_LEDGER=str(self.ledger),
            **environment,
        )

    # --- what it does -----------------------------------------------------------------------

    def copied(self, step: int, *, nodes: int) -> int:
        """Wait until every node's own parts of a step are copied elsewhere; returns the round."""

        def found() -> int:
            there = [r for r in self.records() if r.what == "copied" and r.step >= step]
            return max((r.round for r in there if len({r.rank for r in there}) == nodes), default=0)

        return wait_for(found, f"copies of step {step}:\n{self.nodes[0].output}")

    def lost_steps(self) -> list[int]:
        """Steps that rank 0 trained more than once."""
        steps = [r.step for r in self.records() if r.what == "trained" and r.rank == 0]
        return sorted({step for step in steps if steps.count(step) > 1})

    # --- how it ends ------------------------------------------------------------------------

    def finish(self) -> None:
        """Make all ranks end after the same step, and wait for it."""
        (self.folder / "finish").touch()
        for node in self.nodes:
            if node.process.returncode is None:
                assert node.wait() == 0, node.output

    @property
    def result(self) -> str:
        return wait_for(
            lambda: (self.folder / "result").exists() and (self.folder / "result").read_text(),
            f"the result:\n{self.nodes[0].output[-5000:]}",
        )

    def each_sample_counts_once(self, *, steps: int = STEPS) -> StreamVerdict:
        """Prove from its ledger that no sample of these steps was missed or repeated."""
        stream = each_sample_counts_once(self.ledger, epochs=steps // STEPS_AN_EPOCH)
        assert stream.steps == steps
        return stream


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Trained]:
    """A job that is ended with the test."""
    with closing(Trained(tmp_path)) as made:
        yield made
