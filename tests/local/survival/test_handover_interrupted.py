"""A planned change whose master and newcomer die in the middle: training does not stall."""

from __future__ import annotations

from tests.local.training import ENDLESS, Trained

SLOW = "0.5"
"""Seconds a step: a planned change takes two of them, which leaves time for the kills."""


def test_training_goes_on_when_master_and_newcomer_die_within_a_handover(trained: Trained) -> None:
    first = trained.train("--nnodes", "1:2", nproc=1, steps=ENDLESS, PAUSE=SLOW)
    before = trained.trains(world=1, steps=2)
    newcomer = trained.train("--nnodes", "1:2", nproc=1, steps=ENDLESS, PAUSE=SLOW)
    first.says("workers are saving a step before a planned change")
    trained.kill_master()
    newcomer.kill()
    newcomer.process.wait()
    trained.goes_on(steps=4)
    assert trained.round == before, "nobody had to stop for a newcomer that is gone"
    assert trained.lost_steps() == []
