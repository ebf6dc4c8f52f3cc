"""No snapshot is lost, and the restored state is the same to the bit.

Each job also ends with the proof from its ledger that every sample of every epoch counts once.
"""

from __future__ import annotations

import os
import signal

import pytest

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from tests.checkpoints import newest_whole
from tests.local.commands import wait_for
from tests.local.jobs import Job
from tests.local.ledgers import data_check, each_sample_counts_once
from tests.local.training import ENDLESS, STEPS, Trained


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The result of an undisturbed training."""
    job = Trained(tmp_path_factory.mktemp("undisturbed"))
    try:
        job.train(nproc=1)
        assert job.nodes[0].wait() == 0, job.nodes[0].output
        return job.result
    finally:
        job.close()


def test_killed_workers_go_on_from_their_nodes_memory(trained: Trained, undisturbed: str) -> None:
    trained.train(CHECKPOINTS="")
    latest = 0
    for step in (12, 27, 41):
        latest = trained.reached(step, world=2, round=latest)
        os.kill(trained.pid_of(step % 2, round=latest), signal.SIGKILL)
    assert trained.nodes[0].wait() == 0, trained.nodes[0].output
    resumed = trained.resumptions()[1:]
    assert [r.what for r in resumed] == ["resumed from memory"] * 3
    assert [r.step for r in resumed] == [10, 25, 40]
    assert trained.result == undisturbed
    assert trained.each_sample_counts_once().lost >= 3


def test_a_lost_node_costs_no_step_that_was_snapshotted(trained: Trained, undisturbed: str) -> None:
    for _ in range(2):
        trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", PAUSE="0.05")
    latest = trained.copied(10, nodes=2)
    trained.nodes[1].kill()
    trained.reached(STEPS - 1, world=1, round=latest)
    assert trained.nodes[0].wait() == 0
    last = trained.resumptions()[-1]
    assert (last.what, last.world) == ("resumed from memory", 1)
    assert last.step >= 10
    assert trained.result == undisturbed
    trained.each_sample_counts_once()


def test_slices_and_leased_data_of_a_lost_node_come_from_its_neighbours_memory(
    trained: Trained,
) -> None:
    for _ in range(2):
        leased = {"SHARDED": "1", "LEASED": "7", "PAUSE": "0.05"}
        trained.train("--nnodes", "1:2", nproc=1, steps=ENDLESS, CHECKPOINTS="", **leased)
    latest = trained.copied(10, nodes=2)
    trained.nodes[0].kill()
    trained.trains(world=1, after=latest)
    trained.hurry()
    assert trained.nodes[1].wait() == 0, trained.nodes[1].output
    last = trained.resumptions()[-1]
    assert (last.what, last.world) == ("resumed from memory", 1)
    assert last.step >= 10
    assert trained.result
    each_sample_counts_once(trained.ledger, epochs=7)


def test_a_new_node_gets_its_state_from_those_who_have_it(
    trained: Trained, undisturbed: str
) -> None:
    trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", PAUSE="0.5")
    first = trained.reached(12, world=1)
    trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", PAUSE="0.5")
    trained.trains(world=2, after=first)
    trained.hurry()
    assert [node.wait() for node in trained.nodes] == [0, 0]
    assert trained.resumptions()[-1].what == "resumed from memory"
    assert trained.result == undisturbed
    trained.each_sample_counts_once()


def test_a_job_that_was_killed_altogether_goes_on_from_storage(
    trained: Trained, undisturbed: str
) -> None:
    trained.train()
    trained.reached(22, world=2)
    catalog = CheckpointCatalog(open_storage(trained.folder / "checkpoints"))
    wait_for(lambda: catalog.steps()[:1] and catalog.steps()[0] >= 15, "a checkpoint")
    trained.close()
    trained.nodes.clear()
    newest = newest_whole(catalog).step
    trained.port = Job(trained.folder).port
    trained.train(nproc=1)
    assert trained.nodes[0].wait() == 0, trained.nodes[0].output
    last = trained.resumptions()[-1]
    assert (last.what, last.step, last.world) == ("resumed from storage", newest, 1)
    assert trained.result == undisturbed
    proof = data_check(str(trained.ledger), "--epochs", "7")
    assert proof.returncode == 0, proof.stdout + proof.stderr
    assert "epoch 6: complete, each of 57 trained exactly once" in proof.stdout


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    trained: Trained, undisturbed: str
) -> None:
    trained.train(steps=30)
    assert trained.nodes[0].wait() == 0, trained.nodes[0].output
    catalog = CheckpointCatalog(open_storage(trained.folder / "checkpoints"))
    # Old checkpoints are pruned after publishing, and a job that ends does not wait for it.
    assert [one.step for one in catalog.checkpoints()][:3] == [30, 25, 20]
    newest = catalog.at(30)
    victim = trained.folder / "checkpoints" / newest.path(newest.manifest.parts[-1])
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    trained.nodes.clear()
    trained.train(nproc=1)
    assert trained.nodes[0].wait() == 0, trained.nodes[0].output
    last = trained.resumptions()[-1]
    assert (last.what, last.step) == ("resumed from storage", 25)
    assert newest.manifest.parts[-1].name in trained.nodes[0].output
    assert trained.result == undisturbed
    trained.each_sample_counts_once()


def test_a_node_that_joins_costs_no_step_at_all(trained: Trained, undisturbed: str) -> None:
    trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", EVERY="1000", PAUSE="0.5")
    first = trained.reached(3, world=1)
    trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", EVERY="1000", PAUSE="0.5")
    trained.trains(world=2, after=first)
    trained.hurry()
    assert [node.wait() for node in trained.nodes] == [0, 0]
    assert trained.lost_steps() == []
    assert trained.result == undisturbed
    assert trained.each_sample_counts_once().lost == 0


def test_a_node_that_is_asked_to_leave_costs_no_step_at_all(
    trained: Trained, undisturbed: str
) -> None:
    for _ in range(2):
        trained.train("--nnodes", "1:2", nproc=1, CHECKPOINTS="", EVERY="1000", PAUSE="0.05")
    latest = trained.reached(7, world=2)
    trained.nodes[0].signal(signal.SIGTERM)
    assert trained.nodes[0].wait() == 80
    trained.trains(world=1, after=latest)
    trained.hurry()
    assert trained.nodes[1].wait() == 0
    assert trained.lost_steps() == []
    assert trained.result == undisturbed
    assert trained.each_sample_counts_once().lost == 0


def test_the_only_node_saves_before_it_leaves(trained: Trained, undisturbed: str) -> None:
    trained.train(EVERY="1000", PAUSE="0.05")
    trained.reached(7, world=2)
    trained.nodes[0].signal(signal.SIGTERM)
    assert trained.nodes[0].wait() == 80
    trained.nodes.clear()
    trained.train(EVERY="1000")
    assert trained.nodes[0].wait() == 0
    assert trained.resumptions()[-1].what == "resumed from storage"
    assert trained.lost_steps() == []
    assert trained.result == undisturbed
    assert trained.each_sample_counts_once().lost == 0
