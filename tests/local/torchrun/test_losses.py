"""Plain torchrun against our master: workers, nodes and masters that die."""

from __future__ import annotations

import os
import signal

import pytest

from tests.local.commands import wait_for
from tests.local.torchrun.launching import TorchrunJob

TOGETHER = ("--rdzv-conf", "last_call=60")
"""The first round waits for both nodes, even on a slow machine."""


def test_a_killed_worker_is_recovered(job: TorchrunJob) -> None:
    job.master()
    job.torchrun(nproc=2)
    first = job.trains(world=2)
    os.kill(job.pid_of(1), signal.SIGKILL)
    second = job.trains(world=2, after=first)
    os.kill(job.pid_of(0), signal.SIGKILL)
    job.trains(world=2, after=second)
    assert job.status().restarts == 2
    told = [event["text"] for event in job.events() if event["kind"] == "WorkersFailed"]
    assert [text.partition(" on node")[0] for text in told] == [
        "rank 1 was killed by SIGKILL (code 137)",
        "rank 0 was killed by SIGKILL (code 137)",
    ]


def test_a_killed_worker_of_one_node_restarts_both_nodes(job: TorchrunJob) -> None:
    job.master()
    nodes = [job.torchrun(nnodes="2") for _ in range(2)]
    first = job.trains(world=2)
    os.kill(job.pid_of(1), signal.SIGKILL)
    job.trains(world=2, after=first)
    assert job.status().restarts == 1
    assert all(node.process.poll() is None for node in nodes)


@pytest.mark.parametrize("victim", ["host of the store", "other node"])
def test_the_survivor_of_a_killed_node_goes_on(job: TorchrunJob, victim: str) -> None:
    job.master()
    nodes = [job.torchrun(*TOGETHER, nnodes="1:2"), job.torchrun(*TOGETHER, nnodes="1:2")]
    first = job.trains(world=2)
    rank = 0 if victim == "host of the store" else 1
    worker = job.pid_of(rank)
    lost = next(n for n in nodes if worker in [process.pid for process in n.family()])
    job.kill_node(lost)
    job.trains(world=1, after=first)
    assert job.status().restarts == 0


def test_steps_go_on_while_the_master_is_away_and_the_next_failure_is_handled(
    job: TorchrunJob,
) -> None:
    job.master()
    for _ in range(2):
        job.torchrun(nnodes="2")
    first = job.trains(world=2)
    before = job.status()
    job.kill_master()
    job.goes_on()
    job.master()
    wait_for(
        lambda: not any(node.away for node in job.status().nodes.values()),
        "all nodes at the new master",
    )
    returned = job.status()
    assert returned.round == before.round == first
    assert {n.member for n in returned.nodes.values()} == {n.member for n in before.nodes.values()}
    job.goes_on()
    assert job.round == first
    os.kill(job.pid_of(1), signal.SIGKILL)
    job.trains(world=2, after=first)


def test_workers_do_not_notice_that_the_master_lost_its_memory(job: TorchrunJob) -> None:
    job.master()
    for _ in range(2):
        job.torchrun(nnodes="2")
    first = job.trains(world=2)
    workers = [job.pid_of(rank) for rank in range(2)]
    nodes = {node.member for node in job.status().nodes.values()}
    job.kill_master()
    (store,) = (job.folder / "home").glob("runs/*/master.db")
    for file in store.parent.glob("master.db*"):
        file.unlink()
    job.master()
    wait_for(lambda: job.status().round == first, "the round, learnt from the nodes")
    assert {node.member for node in job.status().nodes.values()} == nodes
    job.goes_on(steps=20)
    assert job.round == first
    assert [job.pid_of(rank) for rank in range(2)] == workers


def test_a_node_that_is_asked_to_leave_says_goodbye(job: TorchrunJob) -> None:
    job.master()
    nodes = [job.torchrun(*TOGETHER, nnodes="1:2"), job.torchrun(*TOGETHER, nnodes="1:2")]
    first = job.trains(world=2)
    job.drain(1)
    job.trains(world=1, after=first)
    wait_for(lambda: any(node.process.poll() is not None for node in nodes), "its end")
    assert any("left: torchrun ended" in event["text"] for event in job.events())


def test_a_node_that_slept_is_fenced_off_and_joins_again_as_a_new_one(job: TorchrunJob) -> None:
    job.master()
    conf = ("--rdzv-conf", "last_call=60,lease=2")
    nodes = [job.torchrun(*conf, nnodes="1:2"), job.torchrun(*conf, nnodes="1:2")]
    first = job.trains(world=2)
    nodes[1].signal(signal.SIGSTOP)
    alone = job.trains(world=1, after=first)
    nodes[1].signal(signal.SIGCONT)
    job.trains(world=2, after=alone)
    assert sorted(node.member for node in job.status().nodes.values())[-1] == 2


def test_a_failure_without_restarts_ends_the_job_everywhere(job: TorchrunJob) -> None:
    job.master()
    nodes = [
        job.torchrun(nnodes="2", max_restarts=0, TROUBLE="raises", TROUBLE_RANK="1")
        for _ in range(2)
    ]
    assert [node.wait() for node in nodes] == [1, 1]
    failure = job.ends("failed").failure
    assert failure is not None
    assert failure.exit_code == 1


def test_a_failure_is_retried_as_often_as_torchrun_was_told(job: TorchrunJob) -> None:
    job.master()
    node = job.torchrun(nproc=2, max_restarts=2, TROUBLE="raises", TROUBLE_ROUNDS="2", STEPS="20")
    assert node.wait() == 0, node.output
    assert job.ends("succeeded").restarts == 2
