"""Two groups of a job with one folder for their checkpoints: after a kill each resumes its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from resile.ledger import check, read_ledger
from tests.checkpoints import newest_whole
from tests.local.checkpointer.workers import Start
from tests.local.commands import wait_for
from tests.local.jobs import Job, NodeProcess
from tests.local.training import ENDLESS, STEPS_AN_EPOCH, Trained

pytestmark = pytest.mark.timeout(300)

EVALUATE = "evaluate"


def test_each_group_restores_its_own_and_none_supersedes_the_other(start: Start) -> None:
    train = start(RESILE_RUN="a", RESILE_ROUND="3")
    evaluate = start(RESILE_RUN="a", RESILE_ROUND="5", RESILE_GROUP=EVALUATE)
    for one in (train, evaluate):
        assert one.told("restore")["step"] == 0
    assert evaluate.told("save 30 5.0")["error"] == ""
    # Round 5 of the other group continued from step 0: that does not affect round 3 of this one.
    assert train.told("save 10 3.0")["error"] == ""
    assert train.told("save 30 3.5")["error"] == ""
    train.kill()
    assert evaluate.told("save 40 5.5")["error"] == ""
    evaluate.kill()
    again = start(RESILE_RUN="a", RESILE_ROUND="4").told("restore")
    assert (again["step"], again["value"], again["problems"]) == (30, 3.5, [])
    again = start(RESILE_RUN="a", RESILE_ROUND="6", RESILE_GROUP=EVALUATE).told("restore")
    assert (again["step"], again["value"], again["problems"]) == (40, 5.5, [])
    server = start(RESILE_RUN="a", RESILE_ROUND="1", RESILE_GROUP="ps/0")
    assert server.told("restore")["step"] == 0


def test_a_name_that_is_no_groups_ends_the_worker_before_it_saves(
    start: Start, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, BrokenPipeError)):
        start(RESILE_GROUP="../elsewhere").told("restore")
    assert not (tmp_path / "checkpoints").exists()


class Group(Trained):
    """The nodes of one group. All groups have one folder for checkpoints and ledger."""

    name: str = ""
    every: int = 5

    def begin(self, **environment: str) -> NodeProcess:
        """Start a node of two workers that saves every ``every`` steps."""
        shared = {"IN_GROUP": self.name, "EVERY": str(self.every), "PAUSE": "0.03"}
        return self.train(steps=ENDLESS, CHECKPOINTS=self.checkpoints, **shared, **environment)

    @property
    def checkpoints(self) -> str:
        return str(self.folder.parent / "checkpoints")

    @property
    def ledger(self) -> Path:
        return self.folder.parent / "ledger"

    @property
    def catalog(self) -> CheckpointCatalog:
        return CheckpointCatalog(open_storage(self.checkpoints), self.name)

    def resumed(self, times: int) -> None:
        """Wait until this many rounds have restored."""
        wait_for(lambda: len(self.resumptions()) >= times, f"{self.name!r} to resume")

    def saved(self, step: int) -> None:
        """Wait for a checkpoint of a step, or of a later one."""
        there = self.catalog
        wait_for(
            lambda: Path(there.address).exists() and any(one >= step for one in there.steps()),
            f"a checkpoint of step {step} of {self.name!r}:\n{self.nodes[0].output[-3000:]}",
        )


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[tuple[Group, Group]]:
    with ExitStack() as ended:
        made = []
        for folder, name, every in (("train", "", 5), ("evaluate", EVALUATE, 7)):
            (tmp_path / folder).mkdir()
            group = ended.enter_context(closing(Group(tmp_path / folder)))
            group.name, group.every = name, every
            made.append(group)
        yield made[0], made[1]


def test_groups_under_agents_go_on_from_their_own_memory_and_storage(
    groups: tuple[Group, Group],
) -> None:
    """Their agents are on one machine; the step shows whose snapshot it was, by its divisor."""
    for group in groups:
        group.begin()
    for group in groups:
        latest = group.reached(16, world=2)
        os.kill(group.pid_of(1, round=latest), signal.SIGKILL)
        group.trains(world=2, after=latest)
        resumed = group.resumptions()[-1]
        assert resumed.what == "resumed from memory"
        assert resumed.step > 0
        assert resumed.step % group.every == 0
    for group in groups:
        group.saved(21)
    for group in groups:
        group.close()
        group.nodes.clear()
        group.port = Job(group.folder).port
    newest = [newest_whole(group.catalog).step for group in groups]
    for group, step in zip(groups, newest, strict=True):
        before = len(group.resumptions())
        group.begin()
        group.resumed(before + 1)
        resumed = group.resumptions()[-1]
        assert (resumed.what, resumed.step) == ("resumed from storage", step)
        group.finish()
    verdict = check(read_ledger(groups[0].ledger))
    assert verdict.sound, verdict
    assert [stream.group for stream in verdict.streams] == ["", EVALUATE]
    assert all(stream.steps > STEPS_AN_EPOCH for stream in verdict.streams)
