"""Plain torchrun against our master: jobs that run, grow and end."""

from __future__ import annotations

from pathlib import Path

from tests.local.commands import wait_for
from tests.local.torchrun.launching import TorchrunJob

HERE = Path(__file__).parent


def test_one_node_of_two_workers_trains_to_the_end(job: TorchrunJob) -> None:
    job.master()
    node = job.torchrun(nproc=2, STEPS="20")
    assert node.wait() == 0, node.output
    job.ends("succeeded")
    assert {(step.rank, step.world) for step in job.steps(round=1)} == {(0, 2), (1, 2)}
    assert len(job.steps(round=1)) == 40


def test_nodes_of_different_sizes_form_one_job(job: TorchrunJob) -> None:
    job.master()
    nodes = [job.torchrun(nnodes="2", nproc=nproc, STEPS="10") for nproc in (2, 1)]
    assert [node.wait() for node in nodes] == [0, 0], nodes[0].output + nodes[1].output
    shown = job.ends("succeeded")
    assert shown.world_size == 3
    assert {(step.rank, step.world) for step in job.steps(round=1)} == {(0, 3), (1, 3), (2, 3)}


def test_a_node_that_joins_is_taken_into_a_larger_world(job: TorchrunJob) -> None:
    job.master()
    conf = ("--rdzv-conf", "last_call=0")
    job.torchrun(*conf, nnodes="1:2")
    alone = job.trains(world=1)
    job.torchrun(*conf, nnodes="1:2")
    assert job.trains(world=2, after=alone) > alone
    assert job.status().restarts == 0


def test_a_node_too_many_is_a_spare_and_ends_well_with_the_job(job: TorchrunJob) -> None:
    job.master()
    finish = job.folder / "finish"
    node = job.torchrun(FINISH=str(finish))
    job.trains(world=1)
    spare = job.torchrun()
    spare.says("waiting as a spare")
    finish.touch()
    assert node.wait() == 0, node.output
    assert spare.wait() == 0, spare.output
    assert "the job succeeded without this node" in spare.output


def test_a_node_may_come_before_the_master(job: TorchrunJob) -> None:
    node = job.torchrun(STEPS="5")
    node.says("the master is unreachable")
    job.master()
    assert node.wait() == 0, node.output


def test_the_host_of_the_store_stays_until_the_last_worker_has_ended(job: TorchrunJob) -> None:
    job.master()
    finish = job.folder / "finish"
    script = str(HERE / "uneven.py")
    nodes = [job.torchrun(nnodes="2", script=script, FINISH=str(finish)) for _ in range(2)]
    first = wait_for(
        lambda: next((n for n in nodes if "rank 0 ends" in n.output), None), "the end of rank 0"
    )
    wait_for(lambda: len(first.family()) == 1, "the end of its worker")
    assert first.process.poll() is None
    finish.touch()
    assert [node.wait() for node in nodes] == [0, 0], nodes[0].output + nodes[1].output
    job.ends("succeeded")


def test_torchrun_and_resile_run_train_in_one_job(job: TorchrunJob) -> None:
    job.master()
    nodes = [
        job.torchrun(nnodes="2", nproc=2, STEPS="20"),
        job.start("--nnodes", "2", "--rdzv-id", "test", STEPS="20"),
    ]
    assert [node.wait() for node in nodes] == [0, 0], nodes[0].output + nodes[1].output
    assert {step.world for step in job.steps(round=1)} == {3}
    job.ends("succeeded")
