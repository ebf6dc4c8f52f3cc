"""A job with a Checkpointer that is scaled down continues with the next step."""

from __future__ import annotations

from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS
from tests.local.training import ENDLESS, TRAINER, Trained
from tests.local.up.ups import Machine, manifest


def test_scaling_down_costs_no_step_at_all(machine: Machine) -> None:
    trained = Trained(machine.folder)
    environment = {
        "STEPS": str(ENDLESS),
        "EVERY": str(ENDLESS),  # saved only for the change
        "PAUSE": "0.05",
        "CHECKPOINTS": "",
        "RESULT": str(machine.folder / "result"),
        "RESILE_LEDGER": str(trained.ledger),
    }
    role = {
        "replicas": {"min": 1, "max": 2, "wanted": 2},
        "script": str(SCRIPTS / TRAINER),
        "env": environment,
    }
    up = machine.up(manifest("shrinks", {"worker": role}))

    def stepping(world: int) -> int:
        """The last step that a world of that size has taken."""
        done = [r for r in trained.records() if (r.what, r.world) == ("step", world)]
        assert up.process.poll() is None, up.output
        return max((r.step for r in done if r.rank == world - 1), default=0)

    wait_for(lambda: stepping(2) >= 5, "steps of two nodes")
    machine.says("scale", "shrinks", "worker=1")
    wait_for(lambda: stepping(1) >= stepping(2) + 5, "steps of one node")
    (machine.folder / "finish").touch()
    assert up.wait() == 0, up.output

    assert trained.lost_steps() == []
    assert trained.resumptions()[-1].what == "resumed from memory"
    steps = max(r.step for r in trained.records() if r.what == "trained") + 1
    assert trained.each_sample_counts_once(steps=steps).lost == 0
