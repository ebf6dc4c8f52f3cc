"""An agent is disconnected from its master: two rounds train at once, and one of them counts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psutil
import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from resile.launch.master_process import KEPT_VARIABLE
from tests.local.commands import wait_for
from tests.local.training import ENDLESS, Trained
from tests.local.wire.masters import TOKEN, running_master
from tests.local.wire.relays import Relay

FLAGS = ("--nnodes", "1:1", "--rdzv-conf", "lease=2")


PATIENCE = 150.0
"""Seconds: a checkpoint takes some on a busy machine, where its writer has the lowest priority."""

pytestmark = pytest.mark.timeout(500)


def begun(job: Trained, *, after: int = 0) -> int:
    """Wait for a step of a later round; returns that round."""
    wait_for(lambda: job.round > after, f"a round after {after}", timeout=PATIENCE)
    return job.round


def rounds(checkpoints: Path) -> dict[int, int]:
    """The steps on storage, each with the round that saved it, without superseded ones."""
    catalog = CheckpointCatalog(open_storage(checkpoints))
    fence = catalog.fence()
    return {
        one.step: one.manifest.round
        for one in catalog.checkpoints()
        if not fence.superseded(one.attempt, one.step)
    }


def test_the_round_that_was_cut_off_is_not_gone_on_with(trained: Trained, tmp_path: Path) -> None:
    checkpoints = trained.folder / "checkpoints"
    told = {"RESILE_TOKEN": TOKEN, KEPT_VARIABLE: "1", "EVERY": "4", "PAUSE": "0.05"}

    def node(endpoint: object) -> None:
        trained.train(
            *("--rdzv-id", "cut", *FLAGS, "--rdzv-endpoint", str(endpoint)),
            nproc=1,
            steps=ENDLESS,
            **told,
        )

    with (
        running_master(tmp_path / "master", "--job", "cut", *FLAGS) as master,
        closing(Relay(master.endpoint)) as relay,
    ):
        node(relay.endpoint)
        first = begun(trained)
        cut_off = psutil.Process(trained.pid_of(0))
        wait_for(
            lambda: checkpoints.is_dir() and rounds(checkpoints), "a checkpoint", timeout=PATIENCE
        )
        node(master.endpoint)  # a spare
        wait_for(
            lambda: "waiting as a spare" in trained.nodes[1].output, "a spare", timeout=PATIENCE
        )
        relay.cut()
        second = begun(trained, after=first)
        (fork,) = {r.step for r in trained.resumptions() if r.round == second}
        wait_for(
            lambda: second in rounds(checkpoints).values(),
            "a checkpoint of the second round",
            timeout=PATIENCE,
        )

        def trains_on() -> bool:
            """Whether both trained at once, or its disconnected agent has stopped it."""
            began = min(r.time for r in trained.steps(round=second))
            beyond = [r for r in trained.steps(round=first) if r.time > began and r.step > fork]
            return len(beyond) > 8 or not cut_off.is_running()

        wait_for(trains_on, "steps of the first round", timeout=PATIENCE)
        counted = rounds(checkpoints)
        assert {number for step, number in counted.items() if step > fork} == {second}
        for one in list(trained.nodes):
            one.kill()
        left = rounds(checkpoints)
        node(master.endpoint)
        third = begun(trained, after=second)
        (resumed,) = [r for r in trained.resumptions() if r.round == third]
        assert resumed.what == "resumed from storage"
        assert resumed.step == max(left)
        assert left[resumed.step] == second
