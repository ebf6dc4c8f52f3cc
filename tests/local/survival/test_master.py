"""The master is killed: training is not affected, and the next failure is handled as usual."""

from __future__ import annotations

import os
import signal

from tests.local.commands import wait_for
from tests.local.jobs import Job
from tests.local.ledgers import each_sample_counts_once
from tests.local.training import ENDLESS, Trained


def test_training_goes_on_while_the_master_is_away_and_after_it_is_back(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2") for _ in range(2)]
    first = job.trains(world=2)
    killed = job.kill_master()
    job.goes_on()
    wait_for(lambda: job.master_pids() not in ([], [killed]), "the master to be started again")
    job.goes_on(steps=20)
    assert job.round == first, "the same round"
    assert all(n.output.count("as node") == 1 for n in nodes), "the same ids"
    os.kill(job.pid_of(1), signal.SIGKILL)
    second = job.trains(world=2, after=first)
    nodes[1].signal(signal.SIGKILL)
    nodes[1].process.wait()
    job.trains(world=1, after=second)


def test_a_worker_that_dies_with_the_master_is_replaced(job: Job) -> None:
    job.start(nproc=2)
    first = job.trains(world=2)
    job.kill_master()
    os.kill(job.pid_of(1), signal.SIGKILL)
    job.trains(world=2, after=first)


def test_a_node_that_dies_with_the_master_is_noticed(job: Job) -> None:
    nodes = [job.start("--nnodes", "1:2", "--rdzv-conf", "lease=2") for _ in range(2)]
    first = job.trains(world=2)
    job.kill_master()
    nodes[1].signal(signal.SIGKILL)
    nodes[1].process.wait()
    job.trains(world=1, after=first)


def test_the_master_may_die_in_the_middle_of_forming_a_round(job: Job) -> None:
    # Stopped workers ignore SIGTERM, so the round cannot form before their grace period is over.
    flags = ("--nnodes", "2", "--restart-grace", "3")
    nodes = [job.start(*flags) for _ in range(2)]
    first = job.trains(world=2)
    os.kill(job.pid_of(0), signal.SIGSTOP)
    os.kill(job.pid_of(1), signal.SIGKILL)
    for node in nodes:
        node.says("round 2 is forming")
    job.kill_master()
    job.trains(world=2, after=first)
    assert all(n.output.count("as node") == 1 for n in nodes), "the same ids"


def test_the_master_may_die_again_and_again_and_leases_no_record_twice(trained: Trained) -> None:
    trained.train("--max-restarts", "10", steps=ENDLESS, CHECKPOINTS="", LEASED="1000")
    latest = trained.trains(world=2)
    for _ in range(3):
        trained.kill_master()
        os.kill(trained.pid_of(0), signal.SIGKILL)
        latest = trained.trains(world=2, after=latest)
    trained.finish()
    each_sample_counts_once(trained.ledger)


def test_a_job_that_ends_while_the_master_is_away_ends_well(job: Job) -> None:
    node = job.start(nproc=2, STEPS="40")
    job.trains(world=2)
    job.kill_master()
    assert node.wait() == 0, node.output
    job.leaves_nothing_behind([node.pid])


def test_a_master_that_is_stopped_is_told_of_and_how_to_go_on(job: Job) -> None:
    node = job.start(nproc=2)
    first = job.trains(world=2)
    (master,) = job.master_pids()
    os.kill(master, signal.SIGSTOP)
    os.kill(job.pid_of(1), signal.SIGKILL)
    node.says(f"kill -CONT {master} if it was stopped, kill -KILL {master} if it hangs")
    os.kill(master, signal.SIGCONT)
    node.says("the master is responding again")
    job.trains(world=2, after=first)
