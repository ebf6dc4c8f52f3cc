"""A keeper and its workers in one process, over the real socket and real memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots.client import AgentSnapshotClient, LocalSnapshotClient, SnapshotClient
from resile.snapshots.errors import SnapshotRequestRefused, SnapshotServerGone
from resile.snapshots.listener import SnapshotListener
from resile.snapshots.messages import WorkerHello
from resile.snapshots.server import SnapshotServer
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.writer import WriterProcess
from tests.local.commands import wait_for
from tests.local.snapshots.memory import memory_files
from tests.local.snapshots.parts import (
    RANK,
    REPLICA,
    Beginning,
    is_whole,
    label_of,
    open_part,
    save,
    steps,
)

WORKER = WorkerHello(rank=0, local_rank=0, world=2, nproc=1, round=1)


class Node:
    """A keeper, like that of an agent."""

    def __init__(self, limit: int | None = None) -> None:
        self.keeper = SnapshotServer(SlotTable(limit=limit), WriterProcess())
        self.server = SnapshotListener(self.keeper)

    def connect(self, worker: WorkerHello = WORKER) -> AgentSnapshotClient:
        return AgentSnapshotClient(self.server.name, worker)

    def close(self) -> None:
        self.server.close()
        self.keeper.close()


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.close()


@pytest.fixture(params=["agent", "own"])
def memory(request: pytest.FixtureRequest, node: Node) -> Iterator[SnapshotClient]:
    made: SnapshotClient = (
        node.connect() if request.param == "agent" else LocalSnapshotClient(WORKER)
    )
    yield made
    made.close()


def test_the_two_newest_snapshots_are_held_and_read_back(memory: SnapshotClient) -> None:
    for step in (10, 20, 30):
        save(memory, WORKER, step=step)
    assert steps(memory) == [20, 30]
    for held in memory.inventory():
        assert not held.is_copy
        with open_part(memory, held.label) as part:
            assert is_whole(held.label, part.buffer)


def test_a_snapshot_that_was_begun_replaces_the_older_one_only(memory: SnapshotClient) -> None:
    save(memory, WORKER, step=10)
    save(memory, WORKER, step=20)
    memory.begin(RANK, step=30, size=100).buffer[:] = b"x" * 100
    assert steps(memory) == [20]
    save(memory, WORKER, step=40)
    assert steps(memory) == [20, 40]


def test_a_part_that_grows_keeps_what_was_there(memory: SnapshotClient) -> None:
    first = save(memory, WORKER, step=10, data=1000)
    save(memory, WORKER, step=20, data=3_000_000)
    assert steps(memory) == [10, 20]
    with open_part(memory, first) as part:
        assert is_whole(first, part.buffer)


def test_both_kinds_are_held_apart(memory: SnapshotClient) -> None:
    save(memory, WORKER, step=10, kind=REPLICA)
    save(memory, WORKER, step=20, kind=RANK)
    names = {held.label.place.name for held in memory.inventory()}
    assert names == {"replica-00000-of-00001", "rank-00000-of-00002"}


def test_memory_can_be_reserved_ahead(memory: SnapshotClient) -> None:
    memory.reserve_ahead({RANK: 2_000_000})
    save(memory, WORKER, step=10, data=1_000_000)
    assert steps(memory) == [10]


def test_a_part_that_is_being_read_is_not_overwritten(memory: SnapshotClient) -> None:
    first = save(memory, WORKER, step=10)
    save(memory, WORKER, step=20)
    with open_part(memory, first) as part:
        beginning = Beginning(memory, step=30)
        assert beginning.waits.wait(60)
        assert not beginning.has_begun
        assert is_whole(first, part.buffer)
    assert beginning.begun().waited > 0


def test_what_training_went_back_behind_is_forgotten(memory: SnapshotClient) -> None:
    for step in (10, 20):
        save(memory, WORKER, step=step)
    memory.resumed(10)
    assert steps(memory) == [10]


def test_what_is_not_held_cannot_be_opened(memory: SnapshotClient) -> None:
    with pytest.raises(
        SnapshotRequestRefused, match="step 7 of rank-00000-of-00002 is not in this node's"
    ):
        open_part(memory, label_of(WORKER, RANK, 7))


def test_memory_outlives_its_worker(node: Node) -> None:
    worker = node.connect()
    label = save(worker, WORKER, step=10)
    worker.close()
    later = WorkerHello(rank=1, local_rank=0, world=2, nproc=1, round=2)
    another = node.connect(later)
    with open_part(another, label) as part:
        assert is_whole(label, part.buffer)
    another.close()


def test_a_worker_of_an_older_round_is_not_heard(node: Node) -> None:
    worker = node.connect()
    node.keeper.new_round(2)
    with pytest.raises(SnapshotRequestRefused, match="round 1 is over"):
        worker.inventory()
    with pytest.raises(SnapshotServerGone, match="round 1 is over"):
        node.connect()
    worker.close()


def test_an_older_world_is_given_back_when_the_newer_has_two_snapshots(node: Node) -> None:
    before = node.connect()
    for step in (10, 20):
        save(before, WORKER, step=step)
    before.close()
    now = WorkerHello(rank=0, local_rank=0, world=1, nproc=1, round=2)
    after = node.connect(now)
    save(after, now, step=30)
    assert steps(after) == [10, 20, 30]
    save(after, now, step=40)
    assert steps(after) == [30, 40]
    after.close()


def test_a_snapshot_beyond_the_given_limit_is_refused_with_numbers() -> None:
    node = Node(limit=8 << 20)
    memory = node.connect()
    try:
        with pytest.raises(
            NoMemoryForSnapshot, match=r"a snapshot of 6\.0 MiB needs 12\.0 MiB .* two buffers"
        ):
            memory.reserve(RANK, 6 << 20)
        save(memory, WORKER, step=10)
        assert steps(memory) == [10]
    finally:
        memory.close()
        node.close()


def test_a_keeper_that_is_gone_is_told_as_such(node: Node) -> None:
    memory = node.connect()
    node.server.close()
    with pytest.raises(SnapshotServerGone):
        memory.inventory()
    with pytest.raises(SnapshotServerGone, match="does not answer"):
        memory.inventory()


def test_a_forked_child_has_a_line_of_its_own(node: Node) -> None:
    memory = node.connect()
    save(memory, WORKER, step=10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            save(memory, WORKER, step=20)
            code = 0 if steps(memory) == [10, 20] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert steps(memory) == [10, 20]
    memory.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_heard(node: Node) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            node.connect()
        except SnapshotServerGone:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_all_memory_is_given_back_at_the_end() -> None:
    gc.collect()
    before = len(memory_files(os.getpid()))  # other tests of this process may still hold some
    _keep_for_a_while()

    def nothing_left() -> bool:
        gc.collect()
        return len(memory_files(os.getpid())) <= before

    wait_for(nothing_left, "the memory to go")


def _keep_for_a_while() -> None:
    node = Node()
    memory = node.connect()
    save(memory, WORKER, step=10)
    memory.close()
    node.close()
