"""The master is killed and its store is lost: the next one recovers the job from its agents."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resile.train.data.sharded.lease_sources import ShardsRefused
from resile.train.data.sharded.shard_client import ShardClient
from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.local.jobs import Job
from tests.local.ledgers import each_sample_counts_once
from tests.local.training import ENDLESS, Trained
from tests.local.wire.masters import running_master

STORE_FILES = ("master.db", "master.db-wal", "master.db-shm")


@contextmanager
def losing_master(job: Job) -> Iterator[None]:
    """kill -9 after the block, and delete its store before the next one opens it."""
    pid = wait_for(lambda: only(job.master_pids()), "one master")
    os.kill(pid, signal.SIGSTOP)  # an agent starts the next one within milliseconds
    (run,) = (job.folder / "home" / "runs").iterdir()
    assert (run / STORE_FILES[0]).exists()
    for name in STORE_FILES:
        (run / name).unlink(missing_ok=True)
    yield
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: job.master_pids() not in ([], [pid]), "the master to be started again")


def lose_master(job: Job) -> None:
    with losing_master(job):
        pass


def only(found: list[int]) -> int:
    """The only one, or 0; if several are started at once, all but one exit."""
    return found[0] if len(found) == 1 else 0


def remembers(job: Job, what: str, *, times: int = 1) -> None:
    wait_for(lambda: job.master_log.count(what) >= times, f"'{what}' in:\n{job.master_log[-3000:]}")


def pids(job: Job, *, world: int) -> list[int]:
    return [job.pid_of(rank) for rank in range(world)]


def test_workers_do_not_notice_that_the_master_forgot_them(job: Job) -> None:
    nodes = [job.start("--nnodes", "2") for _ in range(2)]
    job.trains(world=2)
    os.kill(job.pid_of(0), signal.SIGKILL)
    second = job.trains(world=2, after=1)
    workers = pids(job, world=2)
    lose_master(job)
    remembers(job, f"resumed round {second} from what 2 agents hold")
    job.goes_on(steps=20)
    assert job.round == second, "the same round"
    assert pids(job, world=2) == workers, "the same workers"
    assert all(node.output.count("as node") == 1 for node in nodes), "the same ids"
    os.kill(job.pid_of(1), signal.SIGKILL)
    third = job.trains(world=2, after=second)
    assert third == second + 1
    lose_master(job)
    remembers(job, f"resumed round {third} from what 2 agents hold")
    job.goes_on()
    assert job.round == third


def test_a_node_that_is_lost_with_the_memory_is_not_waited_for_longer_than_a_lease(
    job: Job,
) -> None:
    nodes = [job.start("--nnodes", "1:3", "--rdzv-conf", "lease=2") for _ in range(3)]
    first = job.trains(world=3)
    with losing_master(job):
        nodes[2].signal(signal.SIGKILL)
        nodes[2].process.wait()
    job.trains(world=2, after=first)
    remembers(job, f"2 of 3 nodes of round {first} came back")
    assert all(node.output.count("as node") == 1 for node in nodes), "the same ids"


def test_a_job_that_ends_while_nobody_remembers_it_ends_well(job: Job) -> None:
    nodes = [job.start("--nnodes", "2", STEPS="40") for _ in range(2)]
    job.trains(world=2)
    lose_master(job)
    for node in nodes:
        assert node.wait() == 0, node.output
    job.leaves_nothing_behind([node.pid for node in nodes])


def test_no_sample_is_missed_or_repeated(trained: Trained) -> None:
    for _ in range(2):
        trained.train("--nnodes", "2", nproc=1, steps=ENDLESS, CHECKPOINTS="")
    first = trained.trains(world=2)
    workers = pids(trained, world=2)
    lose_master(trained)
    remembers(trained, f"resumed round {first} from what 2 agents hold")
    trained.goes_on(steps=10)
    assert pids(trained, world=2) == workers
    os.kill(trained.pid_of(1), signal.SIGKILL)
    trained.trains(world=2, after=first)
    resumed = trained.resumptions()[-1]
    assert resumed.what == "resumed from memory", "its keeper hears the workers of the new round"
    trained.finish()
    each_sample_counts_once(trained.ledger)


def test_leased_data_begins_again_from_the_snapshot_at_no_cost(trained: Trained) -> None:
    flags = ("--nnodes", "2", "--max-restarts", "0")
    for _ in range(2):
        trained.train(*flags, nproc=1, steps=ENDLESS, CHECKPOINTS="", LEASED="1000")
    latest = trained.trains(world=2)
    for turn in range(2):
        lose_master(trained)
        latest = trained.trains(world=2, after=latest)
        remembers(trained, "leases of its data were lost", times=turn + 1)
    trained.finish()
    each_sample_counts_once(trained.ledger)


def test_a_client_without_rounds_is_told_what_is_forgotten(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    flags = ("--job", "j", "--endpoint", f"127.0.0.1:{free_port()}", "--store", str(store))
    with running_master(tmp_path / "m", *flags) as master:
        client = ShardClient("train", total=100, shard_size=10, access=master.access)
        shard = client.lease()
        assert shard is not None
        master.process.kill()
        master.process.wait()
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    with (
        running_master(tmp_path / "m", *flags),
        pytest.raises(ShardsRefused, match="'train' was lost with the master's state"),
    ):
        client.done(shard)
    client.close()
