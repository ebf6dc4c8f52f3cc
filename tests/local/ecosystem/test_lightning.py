"""Planned changes of the world under Lightning; test_trainers has the tests for all trainers."""

from __future__ import annotations

import signal

import pytest

from tests.local.ecosystem.disturbed import Disturbed

pytest.importorskip("lightning")

SCRIPT = "lightning_trainer.py"


def test_planned_changes_of_the_world_lose_no_step(disturbed: Disturbed) -> None:
    def one_more() -> None:
        options = {"PAUSE": "0.1", "GLOBAL_BATCH": "4", "EPOCHS": "30"}
        disturbed.train(SCRIPT, "--nnodes", "1:2", nproc=1, **options)

    one_more()
    alone = disturbed.reached(7, world=1)
    one_more()
    together = disturbed.trains(world=2, after=alone)
    leaving = disturbed.nodes.pop(1)
    leaving.signal(signal.SIGTERM)
    disturbed.trains(world=1, after=together)
    disturbed.hurry()
    result = disturbed.ends()
    leaving.wait()
    assert (result["step"], result["epoch"]) == (30 * 16, 30)
    steps = [r.step for r in disturbed.records() if (r.what, r.rank) == ("step", 0)]
    assert steps == list(range(1, 30 * 16 + 1))
    disturbed.trained_each_sample_once()
