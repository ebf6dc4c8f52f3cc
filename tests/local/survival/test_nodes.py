"""Whole nodes are killed, stopped, drained, and join and leave; the others continue."""

from __future__ import annotations

import os
import signal

from tests.local.commands import wait_for
from tests.local.jobs import Job, is_alive


def test_a_killed_agent_takes_its_workers_with_it_and_the_others_go_on(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2", nproc=2) for _ in range(2)]
    first = job.trains(world=4)
    victim = nodes[1]
    masters = job.master_pids()
    family = [process.pid for process in victim.family() if process.pid not in masters]
    assert len(family) >= 4, "an agent, its nursery and two workers"
    victim.signal(signal.SIGKILL)
    victim.process.wait()
    second = job.trains(world=2, after=first)
    wait_for(lambda: not any(is_alive(pid) for pid in family), "the victim's family to be gone")
    assert job.steps(round=second)[0].restarts == 0, "a lost node costs no restart"


def test_the_node_that_hosts_the_store_may_be_killed(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2") for _ in range(2)]
    first = job.trains(world=2)
    host = next(n for n in nodes if "group rank 0 of 2" in n.output)
    host.signal(signal.SIGKILL)
    host.process.wait()
    job.trains(world=1, after=first)


def test_a_stopped_agent_is_evicted_and_rejoins_as_a_new_node_when_it_wakes(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2", "--rdzv-conf", "lease=2") for _ in range(2)]
    first = job.trains(world=2)
    sleeper, other = nodes[1], nodes[0]
    workers = [r.pid for r in job.steps(round=first)]
    old = next(line for line in sleeper.output.splitlines() if "as node" in line)
    sleeper.signal(signal.SIGSTOP)
    second = job.trains(world=1, after=first)
    other.says("was lost")
    sleeper.signal(signal.SIGCONT)
    job.trains(world=2, after=second)
    sleeper.says("evicted: ")
    joins = [line for line in sleeper.output.splitlines() if "as node" in line]
    assert len(joins) == 2
    assert joins[-1].split()[-1] != old.split()[-1], "a new id"
    assert not any(is_alive(pid) for pid in workers), "the old round's workers are gone"


def test_a_sigterm_is_a_clean_leave(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2") for _ in range(2)]
    first = job.trains(world=2)
    nodes[1].signal(signal.SIGTERM)
    job.trains(world=1, after=first)
    assert nodes[1].wait() == 80
    nodes[0].says("left")


def test_ctrl_c_stops_everything_and_exits_with_130(job: Job) -> None:
    node = job.start(nproc=2)
    job.trains(world=2)
    pids = [process.pid for process in node.family()]
    node.signal(signal.SIGINT)
    assert node.wait() == 130
    assert "leaving the job" in node.output
    assert "error:" not in node.output
    job.leaves_nothing_behind(pids)
    assert not list((job.folder / "home" / "runs").iterdir()), "no run folder is left"


def test_a_node_leaves_and_returns_ten_times(job: Job) -> None:
    job.start("--nnodes", "1:2")
    latest = 0
    for turn in range(10):
        guest = job.start("--nnodes", "1:2")
        latest = job.trains(world=2, after=latest)
        guest.signal(signal.SIGTERM if turn % 2 else signal.SIGKILL)
        guest.process.wait()
        latest = job.trains(world=1, after=latest)
    assert job.steps(round=latest)[0].restarts == 0


def test_a_spare_takes_the_place_of_a_lost_node(job: Job) -> None:
    nodes = [job.start("--nnodes", "2") for _ in range(2)]
    first = job.trains(world=2)
    spare = job.start("--nnodes", "2")
    spare.says("waiting as a spare")
    nodes[0].signal(signal.SIGKILL)
    nodes[0].process.wait()
    job.trains(world=2, after=first)
    spare.says("round 2 runs")


def test_the_world_stays_a_multiple_of_the_node_unit(job: Job) -> None:
    flags = ("--nnodes", "2:4", "--node-unit", "2", "--rdzv-conf", "last_call=1")
    nodes = [job.start(*flags) for _ in range(3)]
    first = job.trains(world=2)
    nodes.append(job.start(*flags))
    second = job.trains(world=4, after=first)
    nodes[-1].signal(signal.SIGTERM)
    job.trains(world=2, after=second)


def test_a_job_below_min_says_for_what_it_waits_and_gives_up(job: Job) -> None:
    node = job.start("--nnodes", "2", "--rdzv-conf", "join_timeout=1")
    assert node.wait() == 1
    assert "waiting for nodes: 1 of at least 2 joined" in node.output
    assert "timed out after 1 s" in node.output
    job.leaves_nothing_behind([node.pid])


def test_all_nodes_may_be_killed_and_the_abandoned_master_serves_the_next_ones(job: Job) -> None:
    node = job.start()
    first = job.trains(world=1)
    node.signal(signal.SIGKILL)
    node.process.wait()
    job.start()
    job.trains(world=1, after=first)
    assert os.getpid() not in job.master_pids()
