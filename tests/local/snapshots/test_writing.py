"""From memory to storage, by a process that may be stopped or killed at any moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from resile.agent.snapshot_service import SnapshotService
from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from resile.snapshots.client import AgentSnapshotClient, LocalSnapshotClient, SnapshotClient
from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.messages import Accepted, Busy, CheckpointPublication, WorkerHello
from tests.checkpoints import newest_whole
from tests.local.commands import wait_for
from tests.local.jobs import is_alive
from tests.local.snapshots.conftest import TOKEN, KeeperProcess, Start
from tests.local.snapshots.parts import RANK, REPLICA, Beginning, save

ALONE = CheckpointPublication(world=1, replicas=1, job="test", round=1, keep=2)
BOTH = (REPLICA, RANK)


def take(memory: SnapshotClient, step: int, data: int = 10_000) -> None:
    for kind in BOTH:
        save(memory, memory.worker, step=step, kind=kind, data=data)


def persist(memory: SnapshotClient, folder: Path, step: int) -> Accepted | Busy:
    return memory.persist(folder, step=step, kinds=BOTH, attempt=f"try-{step}", publication=ALONE)


def committed(memory: SnapshotClient, step: int) -> None:
    def look() -> bool:
        status = memory.status()
        assert status.trouble == ""
        return status.committed == step

    wait_for(look, f"the checkpoint of step {step}")


def newest(folder: Path) -> Checkpoint:
    return newest_whole(CheckpointCatalog(open_storage(folder)))


@pytest.fixture
def memory(keeper: KeeperProcess) -> SnapshotClient:
    return keeper.connect()


def test_snapshots_become_checkpoints_and_old_ones_go(
    memory: SnapshotClient, tmp_path: Path
) -> None:
    for step in (10, 20, 30):
        take(memory, step)
        assert persist(memory, tmp_path, step) == Accepted()
        committed(memory, step)
    assert newest(tmp_path).step == 30
    assert CheckpointCatalog(open_storage(tmp_path)).steps() == [30, 20]
    assert memory.status().writing == ()


def test_a_folder_is_the_workers_own_whatever_the_writers_is(
    memory: SnapshotClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    take(memory, 10)
    persist(memory, Path("checkpoints"), 10)
    committed(memory, 10)
    assert newest(tmp_path / "checkpoints").step == 10


@pytest.fixture
def low_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's priority as it is outside of tests."""
    monkeypatch.delenv("RESILE_WRITER_NICE")


@pytest.mark.usefixtures("low_priority")
def test_the_writer_is_last_in_every_queue(
    keeper: KeeperProcess, memory: SnapshotClient, tmp_path: Path
) -> None:
    take(memory, 10)
    persist(memory, tmp_path, 10)
    committed(memory, 10)
    (carrier,) = map(psutil.Process, keeper.carriers())
    assert carrier.nice() == 19
    assert carrier.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE
    assert "torch" not in Path(f"/proc/{carrier.pid}/maps").read_text()


def test_what_is_being_written_is_not_overwritten(
    keeper: KeeperProcess, memory: SnapshotClient, tmp_path: Path
) -> None:
    carrier = _stopped_carrier(keeper, memory, tmp_path)
    take(memory, 20)
    persist(memory, tmp_path, 20)
    assert persist(memory, tmp_path, 20) == Busy(step=20)
    take(memory, 30)
    beginning = Beginning(memory, step=40)
    assert beginning.waits.wait(60)
    assert not beginning.has_begun
    assert memory.status().writing == (20,)
    os.kill(carrier, signal.SIGCONT)
    assert beginning.begun().waited > 0
    committed(memory, 20)
    assert newest(tmp_path).step == 20


def test_a_killed_writer_is_started_again_and_writes_what_the_dead_one_was_told(
    keeper: KeeperProcess, memory: SnapshotClient, tmp_path: Path
) -> None:
    carrier = _stopped_carrier(keeper, memory, tmp_path)
    take(memory, 20, data=5_000_000)
    persist(memory, tmp_path, 20)
    assert newest(tmp_path).step == 1
    os.kill(carrier, signal.SIGKILL)
    committed(memory, 20)
    assert newest(tmp_path).step == 20
    assert carrier not in keeper.carriers()


def test_a_writer_killed_in_the_middle_again_and_again_harms_no_checkpoint(
    keeper: KeeperProcess, memory: SnapshotClient, tmp_path: Path
) -> None:
    take(memory, 1)
    persist(memory, tmp_path, 1)
    committed(memory, 1)
    before = 1
    for step in range(2, 8):
        take(memory, step, data=20_000_000)
        persist(memory, tmp_path, step)
        wait_for(
            lambda step=step: (
                list(tmp_path.glob(f"step-{step:09d}/*"))  # type: ignore[misc]
                or memory.status().committed == step
            ),
            "the first file of the write",
        )
        for carrier in keeper.carriers():
            os.kill(carrier, signal.SIGKILL)
        assert newest(tmp_path).step in (before, step)
        committed(memory, step)
        assert newest(tmp_path).step == step
        before = step


def test_storage_in_trouble_is_told_and_the_next_order_goes_on(
    memory: SnapshotClient, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    take(memory, 10)
    persist(memory, tmp_path / "file" / "checkpoints", 10)
    wait_for(lambda: memory.status().trouble, "the trouble")
    status = memory.status()
    assert status.troubled_step == 10
    assert "file" in status.trouble
    assert status.writing == ()
    take(memory, 20)
    persist(memory, tmp_path / "good", 20)
    wait_for(lambda: memory.status().committed == 20, "the next checkpoint")
    assert memory.status().trouble == ""


def test_what_is_not_in_memory_cannot_be_written(memory: SnapshotClient, tmp_path: Path) -> None:
    with pytest.raises(SnapshotRequestRefused, match="step 10 of replica-00000-of-00001 is not in"):
        persist(memory, tmp_path, 10)
    assert memory.status().writing == ()


def test_two_nodes_write_one_checkpoint(make_keeper: object, tmp_path: Path) -> None:
    assert callable(make_keeper)
    first, second = (make_keeper().connect(rank, world=2) for rank in (0, 1))
    together = CheckpointPublication(world=2, replicas=1, keep=2)
    take(first, 10)
    first.persist(tmp_path, step=10, kinds=BOTH, attempt="one", publication=together)
    wait_for(lambda: first.status().written == 10, "the first node's parts")
    assert first.status().committed is None
    save(second, second.worker, step=10)
    second.persist(tmp_path, step=10, kinds=(RANK,), attempt="one")
    committed(first, 10)
    assert {part.index for part in newest(tmp_path).manifest.parts if part.kind is RANK} == {0, 1}


def test_parts_that_never_come_are_named(memory: SnapshotClient, tmp_path: Path) -> None:
    take(memory, 10)
    memory.persist(
        tmp_path,
        step=10,
        kinds=(RANK,),
        attempt="one",
        publication=CheckpointPublication(world=1, replicas=1),
        retry_seconds=0.1,
    )
    wait_for(lambda: memory.status().trouble, "the trouble")
    assert "replica-00000-of-00001" in memory.status().trouble


def test_a_checkpoint_that_misses_parts_is_given_up_when_a_later_one_exists(
    memory: SnapshotClient, tmp_path: Path
) -> None:
    take(memory, 10)
    never = CheckpointPublication(world=1, replicas=2)
    memory.persist(tmp_path, step=10, kinds=BOTH, attempt="one", publication=never)
    take(memory, 20)
    wait_for(lambda: persist(memory, tmp_path, 20) == Accepted(), "the first to be written")
    committed(memory, 20)
    wait_for(lambda: not memory.status().writing, "the first to be given up")
    assert memory.status().trouble == ""
    assert newest(tmp_path).step == 20


async def test_a_node_that_ends_waits_for_others_parts_only_so_long(tmp_path: Path) -> None:
    snapshots = SnapshotService("127.0.0.1", token=TOKEN)
    memory = AgentSnapshotClient(
        snapshots.name, WorkerHello(rank=0, local_rank=0, world=2, nproc=1)
    )
    try:
        take(memory, 10)
        both = CheckpointPublication(world=2, replicas=1)
        memory.persist(tmp_path, step=10, kinds=BOTH, attempt="one", publication=both)
        await snapshots.flush(600, grace=0.05)
        status = memory.status()
        assert status.written == 10
        assert status.writing == (10,)
    finally:
        memory.close()
        snapshots.close()


def test_without_an_agent_a_forked_data_loader_keeps_no_slot(tmp_path: Path) -> None:
    memory = LocalSnapshotClient(WorkerHello(rank=0, local_rank=0, world=1, nproc=1, round=1))
    take(memory, 10)
    persist(memory, tmp_path, 10)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)  # until the parent closes its end, or dies
        os._exit(0)
    try:
        os.close(reader)
        committed(memory, 10)
        take(memory, 20)
        beginning = Beginning(memory, step=30)
        beginning.begun()
        assert not beginning.waits.is_set()
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        memory.close()


def test_without_an_agent_the_writer_finishes_after_its_workers_death(
    start: Start, tmp_path: Path
) -> None:
    worker = start("alone", str(tmp_path))
    assert worker.stdout is not None
    carrier = int(worker.stdout.readline())
    worker.kill()
    worker.communicate()
    assert not list(tmp_path.glob("*/manifest.json"))
    os.kill(carrier, signal.SIGCONT)
    wait_for(lambda: list(tmp_path.glob("*/manifest.json")), "the checkpoint")
    wait_for(lambda: not is_alive(carrier), "the writer's end")
    assert newest(tmp_path).step == 10


def _stopped_carrier(keeper: KeeperProcess, memory: SnapshotClient, folder: Path) -> int:
    """A writer that has written step 1 and is now stopped."""
    take(memory, 1)
    persist(memory, folder, 1)
    committed(memory, 1)
    (carrier,) = keeper.carriers()
    os.kill(carrier, signal.SIGSTOP)
    return carrier
