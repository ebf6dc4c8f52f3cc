"""Episodes: a job from launch to result, with a fault in between.

An episode starts a job, lets it train for a moment, breaks something and writes what it finds into
Findings, by measure. It may end early with NoAnswer (from a wait): values found until then are
kept, and the caller records the reason for the missing ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.jobs import Job, running
from bench.launchers import Launcher, Shape
from bench.timeline import Record, continuity, pause, recovery

ONE_BY_TWO = Shape(min_nodes=1, max_nodes=1, workers_per_node=2)
TWO_BY_ONE = Shape(min_nodes=2, max_nodes=2, workers_per_node=1)
ONE_OR_TWO = Shape(min_nodes=1, max_nodes=2, workers_per_node=1)
ONE_BY_ONE = Shape(min_nodes=1, max_nodes=1, workers_per_node=1)

SETTLED_STEPS = 30
WORKER_BOUND = 60.0
# Above torchrun's 47 s and DLRover's 65 s, which are sums of their default timeouts.
NODE_BOUND = 120.0
JOIN_BOUND = 60.0
MASTER_AWAY = 5.0
# DLRover's agents retry every 5 s.
MASTER_SETTLED = 6.0
# Steps kept around a fault, for the picture.
STRIP_BEFORE = 1.0
STRIP_AFTER = 8.0


@dataclass
class Findings:
    """The values and steps that an episode has found so far."""

    keep: Path | None = None
    values: dict[str, float] = field(default_factory=dict)
    steps: list[tuple[float, int]] = field(default_factory=list)


Episode = Callable[[Launcher, Findings], None]


def worker_killed(
    launcher: Launcher, findings: Findings, *, shape: Shape, measure: str, libraries: str = ""
) -> None:
    """Measure the time from kill -9 of the last rank's worker to the last rank's next step."""
    world = shape.max_nodes * shape.workers_per_node
    with running(launcher, shape, keep=findings.keep, libraries=libraries) as job:
        start_all(job)
        job.wait_for_steps(world=world, steps=SETTLED_STEPS)
        fault = job.kill_worker(world - 1)
        findings.values[measure] = _recovered(job, fault=fault, world=world, within=WORKER_BOUND)
        job.wait_until(fault + findings.values[measure] + STRIP_BEFORE)
        findings.steps = _strip(job.records(), fault=fault)


def node_killed(launcher: Launcher, findings: Findings, *, node: int, measure: str) -> None:
    """Measure the time from kill -9 of a node's agent and workers to the survivor's next step."""
    with running(launcher, ONE_OR_TWO, keep=findings.keep) as job:
        start_all(job)
        job.wait_for_steps(world=2, steps=SETTLED_STEPS)
        fault = job.kill_node(node)
        findings.values[measure] = _recovered(job, fault=fault, world=1, within=NODE_BOUND)


def lone_then_joined(launcher: Launcher, findings: Findings) -> None:
    """Start one of 1:2 nodes and let it train; then start the second."""
    with running(launcher, ONE_BY_ONE, keep=findings.keep) as job:
        started = job.start_agent(0)
        ordinary = job.wait_for_steps(world=1) - started
    with running(launcher, ONE_OR_TWO, keep=findings.keep) as job:
        started = job.start_agent(0)
        lone = job.wait_for_steps(world=1) - started
        findings.values["lone-launch"] = lone
        findings.values["lone-extra"] = lone - ordinary
        job.wait_for_steps(world=1, steps=SETTLED_STEPS)
        joined = job.start_agent(1)
        first_step = job.wait_for_steps(world=2, within=JOIN_BOUND)
        findings.values["join-first-step"] = first_step - joined
        paused = job.wait(lambda records: pause(records, old_world=1, new_world=2), within=1)
        findings.values["join-pause"] = paused


def master_killed(launcher: Launcher, findings: Findings) -> None:
    """Kill the master with -9 and watch training; restart the master; then kill a worker."""
    with running(launcher, TWO_BY_ONE, keep=findings.keep) as job:
        start_all(job)
        ready = job.wait_for_steps(world=2, steps=SETTLED_STEPS)
        job.wait_until(ready + MASTER_AWAY)
        fault = job.kill_master()
        until = fault + MASTER_AWAY
        job.wait_until(until)
        went_on = continuity(job.records(), fault=fault, until=until)
        if went_on is not None:
            findings.values["master-steps-lost"] = went_on.steps_lost
            findings.values["master-gap"] = went_on.longest_gap
            extra = max(0.0, went_on.longest_gap - went_on.usual_gap)
            findings.values["master-extra-gap"] = extra
        back = job.restart_master()
        job.wait_until(back + MASTER_SETTLED)
        fault = job.kill_worker(1)
        took = _recovered(job, fault=fault, world=2, within=NODE_BOUND)
        findings.values["master-next-recovery"] = took


def launched(
    launcher: Launcher, findings: Findings, *, shape: Shape, measure: str, libraries: str = ""
) -> None:
    """Measure the time from the launch command to the last rank's first step.

    A service that the launcher needs is started before.
    """
    with running(launcher, shape, keep=findings.keep, libraries=libraries) as job:
        started = job.start_agent(0)
        world = shape.workers_per_node
        findings.values[measure] = job.wait_for_steps(world=world) - started


def start_all(job: Job) -> None:
    """Start all agents; the first one's store or master listens before the next agent starts."""
    job.start_agent(0)
    for node in range(1, job.site.shape.max_nodes):
        job.wait_until_listening()
        job.start_agent(node)


def _recovered(job: Job, *, fault: float, world: int, within: float) -> float:
    return job.wait(lambda records: recovery(records, fault=fault, world=world), within=within)


def _strip(records: list[Record], *, fault: float) -> list[tuple[float, int]]:
    return [
        (round(record.time - fault, 4), record.rank)
        for record in records
        if -STRIP_BEFORE <= record.time - fault <= STRIP_AFTER
    ]
