"""Copies over a slow network, and their effect on workers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from resile.snapshots import memory
from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import WorkerHello
from resile.snapshots.peers import copy_progress, replicator
from resile.snapshots.peers.transfers import Transfer
from resile.snapshots.slots import BEGIN
from tests.local.commands import wait_for
from tests.local.snapshots.parts import copy_to, is_whole, open_part, save, steps
from tests.unit.snapshots.nodes import MakeNode, Node, nodes
from tests.unit.snapshots.throttle import Throttle, throttled

FAST = 1e12
SLOW = 1_000_000.0
LARGE = 8_000_000


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


@pytest.fixture
def pair(make: MakeNode) -> Iterator[tuple[Node, Node, Throttle]]:
    """Two nodes with a network between them that would take seconds for a large part."""
    first, second = make(0), make(1)
    with throttled(second.peers.address, rate=SLOW) as network:
        copy_to(first.memory, network.address)
        yield first, second, network


def test_a_step_is_copied_when_the_parts_of_all_workers_are(make: MakeNode) -> None:
    first, second = make(0, world=4), make(2, world=4)
    workers = [WorkerHello(rank=n, local_rank=n, world=4, nproc=2, round=1) for n in (0, 1)]
    with_two = [AgentSnapshotClient(first.server.name, worker) for worker in workers]
    copy_to(with_two[0], second.peers.address)
    one = save(with_two[0], workers[0], step=10)
    wait_for(lambda: second.has(one), "the copy of the first worker's part")
    time.sleep(0.05)  # in which the acknowledgement arrives
    assert with_two[0].status().copied is None
    save(with_two[1], workers[1], step=10)
    wait_for(lambda: with_two[0].status().copied == 10, "the copies of both")
    for memory_ in with_two:
        memory_.close()


def test_what_is_being_sent_is_not_overwritten(pair: tuple[Node, Node, Throttle]) -> None:
    first, second, network = pair
    label = first.save(10, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of it to be sent")
    first.save(20)
    assert not first.is_free(label)
    network.rate = FAST
    wait_for(lambda: second.has(label), "the copy")
    with open_part(second.memory, label) as part:
        assert is_whole(label, part.buffer)


def test_steps_between_are_skipped(pair: tuple[Node, Node, Throttle]) -> None:
    first, second, network = pair
    first.save(10, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of it to be sent")
    first.save(20)
    network.rate = FAST
    wait_for(lambda: first.memory.status().copied == 20, "the newest step")
    assert steps(second.memory) == [10, 20]


def test_a_worker_waits_for_a_moment_and_then_the_copy_is_given_up(
    pair: tuple[Node, Node, Throttle],
) -> None:
    first, second, network = pair
    first.save(10, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of it to be sent")
    first.save(20)
    started = time.monotonic()
    first.save(30)
    assert time.monotonic() - started >= replicator.WAIT_LIMIT
    sent = network.passed
    time.sleep(0.3)
    assert network.passed < LARGE, "the rest of a copy that was given up is not sent"
    assert network.passed - sent < LARGE / 4
    wait_for(lambda: first.memory.status().copied == 30, "a copy of what is small enough")
    assert 10 not in steps(second.memory)


def test_that_copies_do_not_keep_up_is_said_once(
    pair: tuple[Node, Node, Throttle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_progress, "STARVING_FOR", 0.0)
    first, _, _ = pair
    for step in range(10, 90, 10):
        first.save(step, data=LARGE // 10)
    assert first.memory.status().copied is None
    (told,) = first.news
    assert told.startswith(
        "WARNING copies of snapshots to another node do not keep up: 3 snapshots"
    )
    assert "Take snapshots less often" in told
    assert "do not keep up" in first.memory.status().copy_trouble


def test_a_step_that_is_saved_again_is_copied_again(make: MakeNode) -> None:
    first, second = make(0), make(1)
    copy_to(first.memory, second.peers.address)
    label = first.save(10, data=1000)
    wait_for(lambda: first.memory.status().copied == 10, "the first copy")
    first.save(10, data=2000)
    wait_for(lambda: _size(second) == _size(first), "the second")
    with open_part(second.memory, label) as part:
        assert is_whole(label, part.buffer)


def _size(node: Node) -> int:
    return sum(held.size for held in node.memory.inventory())


def test_a_copy_that_was_refused_is_offered_again_without_a_newer_snapshot(make: MakeNode) -> None:
    """While workers hold still for a planned change no newer one comes."""
    first, second = make(0), make(1, limit=1 << 20)
    copy_to(first.memory, second.peers.address)
    first.save(10, data=3_000_000)
    wait_for(lambda: "needs" in first.memory.status().copy_trouble, "the refusal")
    second.holdings._limit = None
    wait_for(lambda: first.memory.status().copied == 10, "the copy")


def test_the_last_step_before_a_planned_change_goes_first(
    pair: tuple[Node, Node, Throttle],
) -> None:
    first, _, network = pair
    first.save(10, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of it to be sent")
    first.memory.resumed(10)
    assert first.keeper.ask_handover(1, round=1, timeout=60)
    first.save(20)
    wait_for(lambda: first.memory.status().copied == 20, "the last step")
    assert network.passed < LARGE


def test_a_late_copy_no_longer_depends_on_the_process_of_the_lowest_priority(
    pair: tuple[Node, Node, Throttle],
) -> None:
    """On a busy machine that process gets next to no time; here it gets none."""
    first, second, network = pair
    first.save(10, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of it to be sent")
    second.save(10)
    for node in (first, second):
        node.save(20)
    network.rate = FAST
    wait_for(lambda: first.memory.status().copied == 20, "the copies")
    pids = [node.carrier.pid for node in (first, second)]
    for pid in pids:
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    first.save(30)
    wait_for(lambda: first.memory.status().copied == 30, "a copy without it")
    for pid in pids:
        assert pid is not None
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("length", [LARGE, LARGE + 12_345])
def test_a_transfer_that_is_hurried_on_its_way_arrives_whole(make: MakeNode, length: int) -> None:
    node = make(0)
    content = (b"0123456789abcdef!" * (length // 17 + 1))[:length]
    slot = memory.create()
    memory.grow(slot, BEGIN + length)
    os.pwrite(slot, content, BEGIN)
    transfer = Transfer(node.carrier)
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sending = threading.Thread(
            target=lambda: transfer.push(slot, sender, length=length), name="a sender"
        )
        sending.start()
        received = bytearray(receiver.recv(1 << 20))
        transfer.hurry()
        while len(received) < length:
            received += receiver.recv(1 << 20)
        sending.join()
    os.close(slot)
    assert received == content


def test_steps_of_a_life_that_is_over_are_forgotten_although_they_are_being_sent(
    pair: tuple[Node, Node, Throttle],
) -> None:
    first, _, network = pair
    first.save(10)
    wait_for(lambda: first.memory.status().copied == 10, "the first step")
    first.save(20, data=LARGE)
    wait_for(lambda: network.passed > LARGE / 20, "some of the second to be sent")
    first.memory.resumed(10)
    assert steps(first.memory) == [10]
