"""Jobs made of real processes: found, waited for, broken and cleaned up."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from bench.campaign import Campaign
from bench.episodes import Findings
from bench.jobs import Job, NoAnswer, running
from bench.launchers import Command, Launcher, Shape, Site
from bench.measures import Experiment, Measure
from bench.processes import is_running
from bench.steady import overhead
from bench.targets import Shown
from bench.timeline import recovery

AGENT = Path(__file__).with_name("small_agent.py")
ONE_BY_TWO = Shape(1, 1, 2)
TWO_BY_ONE = Shape(2, 2, 1)


@dataclass(frozen=True)
class SmallLauncher(Launcher):
    """An agent that keeps workers running, which write step records and train nothing."""

    name: str = "small"
    family: str = "resile"
    label: str = "Small"
    mode: str = "keep"

    def agent(self, site: Site, node: int) -> Command:
        shape = site.shape
        world = shape.max_nodes * shape.workers_per_node
        first = node * shape.workers_per_node
        ranks = range(first, first + shape.workers_per_node)
        argv = [sys.executable, "-S", str(AGENT), self.mode, str(site.port), str(world)]
        return Command([*argv, *map(str, ranks)])

    def is_master(self, argv: Sequence[str]) -> bool:
        return "listen" in argv


@pytest.fixture
def job() -> Iterator[Job]:
    with running(SmallLauncher(), ONE_BY_TWO) as job:
        job.start_agent(0)
        job.wait_for_steps(world=2, steps=3)
        yield job


def test_a_killed_worker_is_seen_to_come_back(job: Job) -> None:
    fault = job.kill_worker(1)
    took = job.wait(lambda records: recovery(records, fault=fault, world=2), within=30)
    assert took > 0


def test_nothing_is_left_when_a_job_ends(job: Job) -> None:
    pids = job.pids()
    assert len(pids) >= 3
    job._processes.kill_all()
    assert not any(is_running(pid) for pid in pids)
    assert job.pids() == []


def test_an_orphan_is_still_found(job: Job) -> None:
    agent = job._agents[0]
    workers = {record.pid for record in job.records()}
    os.kill(agent.pid, signal.SIGKILL)
    agent.wait()
    assert workers <= set(job.pids())


def test_a_killed_node_takes_its_workers_but_not_the_master() -> None:
    with running(SmallLauncher(), TWO_BY_ONE) as job:
        job.start_agent(0)
        job.wait_until_listening()
        job.start_agent(1)
        job.wait_for_steps(world=2)
        masters = job.master_pids()
        assert len(masters) == 1
        job.kill_node(0)
        job.wait(lambda _: job._processes.pids(node=0) == masters or None, within=10)
        assert job.master_pids() == masters


def test_an_agent_that_exits_ends_the_wait_and_is_told() -> None:
    with running(SmallLauncher(mode="exit"), ONE_BY_TWO) as job:
        job.start_agent(0)
        with pytest.raises(NoAnswer, match=r"training never began: agent exited \(3\)"):
            job.wait_for_steps(world=2)


def test_a_wait_is_bounded(job: Job) -> None:
    with pytest.raises(NoAnswer, match=r"no step in 0.1 s"):
        job.wait_for_steps(world=3, within=0.1)


def test_an_episode_that_fails_is_an_outcome_with_its_reason() -> None:
    def episode(launcher: Launcher, findings: Findings) -> None:
        with running(launcher, ONE_BY_TWO) as job:
            job.start_agent(0)
            findings.values["known"] = 1.0
            job.wait_for_steps(world=2)

    experiment = Experiment(
        "x", episode, ["small"], [Measure("known", "", Shown()), Measure("unknown", "", Shown())]
    )
    campaign = Campaign([SmallLauncher(mode="exit")], 2, Console(quiet=True))
    (known, unknown), strips = campaign.run(experiment)
    assert known.series[0].values == [1.0, 1.0]
    assert unknown.series[0].failures == {"training never began: agent exited (3)": 2}
    assert strips == []


def test_overhead_is_all_but_the_workers_and_what_they_started(job: Job) -> None:
    workers = {record.pid for record in job.records()}
    counted = overhead(job)
    assert workers.isdisjoint(counted)
    assert job._agents[0].pid in counted
    assert set(job.master_pids()) <= counted.keys()
