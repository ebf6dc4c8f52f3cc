"""Several groups in one job: an event in one does not affect the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from resile.job.exits import NodeExitCode
from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.local.jobs import Job

ALONE = ("--rdzv-conf", "independent=true")


class OneJob:
    """A job whose groups are started with `resile run` each, at one endpoint."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self._folder = folder
        self._port = free_port()
        self._ending = ending
        self.groups: dict[str, Job] = {}

    def group(self, name: str) -> Job:
        """Its nodes, its steps, and the master that it shares with the others."""
        if name not in self.groups:
            folder = self._folder / (name.replace("/", "-") or "main")
            folder.mkdir()
            home = str(self._folder / "home")
            shared = {"RESILE_HOME": home, "RESILE_GROUP": name, "PAUSE": "0.1"}
            job = self._ending.enter_context(
                closing(Job(folder, port=self._port, environment=shared))
            )
            self.groups[name] = job
        return self.groups[name]

    def undisturbed(self) -> dict[str, tuple[int, list[int]]]:
        """The round and the workers of each group."""
        return {
            name: (job.round, sorted({step.pid for step in job.steps(round=job.round)}))
            for name, job in self.groups.items()
        }

    def goes_on(self) -> None:
        for job in self.groups.values():
            job.goes_on()


@pytest.fixture
def one_job(tmp_path: Path) -> Iterator[OneJob]:
    """A main group and an evaluation of two nodes each, and two independent workers."""
    with ExitStack() as ending:
        made = OneJob(tmp_path, ending)
        for name in ("evaluate", ""):  # the master is started by one that is not in the main group
            for _ in range(2):
                made.group(name).start("--nnodes", "2")
        for name in ("worker/0", "worker/1"):
            made.group(name).start(*ALONE)
        for name, job in made.groups.items():
            assert job.trains(world=1 if name.startswith("worker") else 2) == 1
        yield made


def test_a_group_that_fails_and_a_master_that_dies_stop_no_other_group(one_job: OneJob) -> None:
    before = one_job.undisturbed()
    evaluate, lone = one_job.group("evaluate"), one_job.group("worker/1")
    os.kill(evaluate.pid_of(1), signal.SIGKILL)
    assert evaluate.trains(world=2, after=1) == 2
    one_job.goes_on()
    after = one_job.undisturbed()
    assert {**after, "evaluate": None} == {**before, "evaluate": None}

    killed = lone.kill_master()
    wait_for(lambda: lone.master_pids() not in ([], [killed]), "the master to be started again")
    one_job.goes_on()
    assert one_job.undisturbed() == after, "nobody noticed"

    os.kill(lone.pid_of(0), signal.SIGKILL)
    assert lone.trains(world=1, after=1) == 2
    one_job.goes_on()
    assert {**one_job.undisturbed(), "worker/1": None} == {**after, "worker/1": None}
    for job in one_job.groups.values():
        assert all(node.output.count("as node") == 1 for node in job.nodes), "the same ids"


def test_a_failed_independent_worker_is_started_again_and_goes_on(one_job: OneJob) -> None:
    before = one_job.undisturbed()
    lone = one_job.group("worker/1")
    (node,) = lone.nodes
    node.kill()
    node.process.wait()
    trouble = {"TROUBLE": "raises", "TROUBLE_RANK": "0", "TROUBLE_ROUNDS": "99"}
    failing = lone.start(*ALONE, RESILE_NODE_ID="1", **trouble)
    assert failing.wait() == NodeExitCode.JOB_FAILED, failing.output
    failed_in = lone.round
    assert failed_in > 1
    lone.start(*ALONE, RESILE_NODE_ID="2")
    assert lone.trains(world=1, after=failed_in) == failed_in + 1, "rounds count on"
    one_job.goes_on()
    assert {**one_job.undisturbed(), "worker/1": None} == {**before, "worker/1": None}


def test_a_master_without_a_main_group_ends_with_the_last_of_the_others(job: Job) -> None:
    node = job.start(*ALONE, STEPS="3", RESILE_GROUP="worker/0")
    assert node.wait() == 0, node.output
    job.leaves_nothing_behind([node.pid])


def test_a_group_that_outlives_the_main_one_keeps_its_master(tmp_path: Path) -> None:
    with ExitStack() as ending:
        made = OneJob(tmp_path, ending)
        evaluate, main = made.group("evaluate"), made.group("")
        evaluate.start()
        assert evaluate.trains(world=1) == 1
        (master,) = evaluate.master_pids()
        node = main.start(STEPS="3")
        assert node.wait() == 0, node.output
        before = made.undisturbed()["evaluate"]
        evaluate.goes_on(steps=60)  # longer than an idle master stays
        assert evaluate.master_pids() == [master]
        assert made.undisturbed()["evaluate"] == before
