"""Keepers of several nodes: copies, fetching, and authentication."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.errors import PeerError, SnapshotRequestRefused
from resile.snapshots.messages import WorkerHello
from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import authenticate, authenticate_caller
from resile.snapshots.peers.frames import (
    AnswerDecoder,
    Arrived,
    Challenge,
    Coming,
    GoOn,
    Kept,
    Offer,
    PeerMessageDecoder,
    Proof,
    Wanted,
    Whole,
)
from resile.snapshots.slots import Label
from tests.local.commands import wait_for
from tests.local.snapshots.parts import (
    RANK,
    REPLICA,
    copy_to,
    is_whole,
    label_of,
    open_part,
    part_bytes,
    save,
    steps,
)
from tests.unit.snapshots.giver import giver
from tests.unit.snapshots.nodes import TOKEN, MakeNode, Node, hung_up, nodes


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


def test_rank_parts_are_copied_to_the_next_node(make: MakeNode) -> None:
    first, second = make(0), make(1)
    copy_to(first.memory, second.peers.address)
    label = first.save(10, data=3_000_000)
    wait_for(lambda: second.has(label), "the copy")
    wait_for(lambda: first.memory.status().copied == 10, "the status")
    (held,) = second.memory.inventory()
    assert held.is_copy
    with open_part(second.memory, label) as part:
        assert is_whole(label, part.buffer)


def test_replica_parts_are_not_copied(make: MakeNode) -> None:
    first, second = make(0), make(1)
    copy_to(first.memory, second.peers.address)
    save(first.memory, first.worker, step=10, kind=REPLICA)
    label = first.save(10)
    wait_for(lambda: second.has(label), "the copy")
    assert steps(second.memory, REPLICA) == []


def test_a_new_neighbour_gets_what_is_held_already(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    copy_to(first.memory, second.peers.address)
    wait_for(lambda: second.has(label), "the copy")


def test_a_node_alone_sends_to_nobody(make: MakeNode) -> None:
    node = make(0)
    copy_to(node.memory, node.peers.address)
    node.save(10)
    assert node.memory.status().copied is None
    assert node.news == []


def test_what_a_node_lacks_is_fetched_from_another(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10, data=3_000_000)
    with second.memory.fetch(first.peers.address, label) as part:
        part.need(part.size)
        assert is_whole(label, part.buffer)
    wait_for(lambda: second.has(label), "the part to be held here, too")


def test_what_nobody_has_cannot_be_fetched(make: MakeNode) -> None:
    first, second = make(0), make(1)
    with pytest.raises(
        SnapshotRequestRefused, match=r"step 10 of rank-00000-of-00002 is not held here"
    ):
        second.memory.fetch(first.peers.address, label_of(first.worker, RANK, 10))


def test_a_keeper_that_is_gone_cannot_be_asked(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    first.keeper.close()
    with pytest.raises(SnapshotRequestRefused, match=r"snapshot server at 127\.0\.0\.1:"):
        second.memory.fetch(first.peers.address, label)


def test_a_copy_that_does_not_fit_is_refused_and_told_once(make: MakeNode) -> None:
    first, second = make(0), make(1, limit=1 << 20)
    copy_to(first.memory, second.peers.address)
    for step in (10, 20):
        first.save(step, data=3_000_000)
        wait_for(lambda: "needs 3.0 MiB" in first.memory.status().copy_trouble, "the refusal")
    first.save(30)
    wait_for(lambda: first.memory.status().copied == 30, "a copy that fits")
    assert first.memory.status().copy_trouble == ""
    assert len(first.news) == 1
    assert "was not copied to another node" in first.news[0]


def test_fetching_what_does_not_fit_says_so(make: MakeNode) -> None:
    first, second = make(0), make(1, limit=1 << 20)
    label = first.save(10, data=3_000_000)
    with pytest.raises(NoMemoryForSnapshot, match="needs"):
        second.memory.fetch(first.peers.address, label)


def test_another_jobs_token_is_refused_on_both_sides(make: MakeNode) -> None:
    first, stranger = make(0), make(1, token="the token of another job")
    label = first.save(10)
    with pytest.raises(SnapshotRequestRefused, match="wrong job token"):
        stranger.memory.fetch(first.peers.address, label)
    copy_to(first.memory, stranger.peers.address)
    wait_for(lambda: "token" in first.memory.status().copy_trouble, "the refusal")
    assert stranger.memory.inventory() == ()


def test_a_listener_without_the_token_cannot_pose_as_a_keeper() -> None:
    caller, called = socket.socketpair()
    with caller, called:
        frames.send(called, Challenge(b"n" * 32))
        frames.send(called, Proof(b"", b"a guess"))
        with pytest.raises(PeerError, match="does not know the job's token"):
            authenticate(caller, TOKEN)


def test_who_says_nothing_of_sense_is_hung_up_on(make: MakeNode) -> None:
    node = make(0)
    host, _, port = node.peers.address.rpartition(":")
    for words in (b"\xff\xff\xff\xff", b"\0\0\0\x02hi", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            frames.receive(connection, AnswerDecoder)
            connection.sendall(words)
            assert hung_up(connection)


def _offer(node: Node, label: Label, size: int) -> socket.socket:
    """A connection that waits for the part's bytes; its slot may still be in use at first."""
    host, _, port = node.peers.address.rpartition(":")

    def accepted() -> socket.socket | None:
        connection = socket.create_connection((host, int(port)), timeout=30)
        authenticate(connection, TOKEN)
        frames.send(connection, Offer(label=label, size=size))
        if isinstance(frames.receive(connection, AnswerDecoder), GoOn):
            return connection
        connection.close()
        return None

    connection = wait_for(accepted, "a place for the offer")
    assert connection is not None
    return connection


def test_a_copy_that_breaks_off_does_not_exist_and_the_one_before_stays(make: MakeNode) -> None:
    first, second = make(0), make(1)
    before = first.save(10)
    first.copy(before, second)
    torn = label_of(first.worker, RANK, 20)
    content = part_bytes(torn, 50_000)
    with _offer(second, torn, len(content)) as connection:
        connection.sendall(content[:20_000])
    given_up = label_of(first.worker, RANK, 30)
    with _offer(second, given_up, len(content)) as connection:
        connection.sendall(content)
        assert frames.receive(connection, AnswerDecoder) == Arrived()
    assert steps(second.memory) == [10]
    with open_part(second.memory, before) as part:
        assert is_whole(before, part.buffer)


def test_an_older_part_never_replaces_a_newer_one(make: MakeNode) -> None:
    first, second = make(0), make(1)
    old, new = first.save(10), first.save(20)
    first.copy(new, second)
    with pytest.raises(PeerError, match="step 20 of rank-00000-of-00002 is newer and held here"):
        first.copy(old, second)
    assert steps(second.memory) == [20]


def test_a_part_is_held_until_the_other_side_has_all_of_it(make: MakeNode) -> None:
    """The kernel sends the slot's own pages: they may change after the last of them was sent."""
    node = make(0)
    label = node.save(10)
    held: list[bool] = []

    def listen(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            assert authenticate_caller(connection, TOKEN)
            offer = frames.receive(connection, PeerMessageDecoder)
            assert isinstance(offer, Offer)
            frames.send(connection, GoOn())
            frames.receive_exactly(connection, offer.size)
            held.append(not node.is_free(label))
            frames.send(connection, Arrived())
            assert frames.receive(connection, PeerMessageDecoder) == Whole()
            held.append(not node.is_free(label))
            frames.send(connection, Kept())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen, args=(listener,))
        thread.start()
        node.copy(label, f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert held == [True, True]
    assert node.is_free(label)


def test_a_part_that_is_fetched_is_held_until_all_of_it_arrived(make: MakeNode) -> None:
    node = make(0)
    label = node.save(10)
    host, _, port = node.peers.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        authenticate(connection, TOKEN)
        frames.send(connection, Wanted(label=label))
        coming = frames.receive(connection, AnswerDecoder)
        assert isinstance(coming, Coming)
        frames.receive_exactly(connection, coming.size)
        assert not node.is_free(label)
        frames.send(connection, Arrived())
        wait_for(lambda: node.is_free(label), "the slot to be let go")


def test_what_has_come_can_be_read_while_the_rest_comes(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 10)
    content = part_bytes(label, 30_000_000)
    come = 20_000_000
    with (
        giver(content[:come], size=len(content)) as other,
        node.memory.fetch(other.address, label) as part,
    ):
        part.need(1000)
        part.need(come // 2)
        assert part.buffer[: come // 2] == content[: come // 2]
        assert not node.has(label)
        other.leave()
        with pytest.raises(
            SnapshotRequestRefused, match=f"ended after {come} of {len(content)} bytes"
        ):
            part.need(len(content))
    assert not node.has(label)


def test_all_workers_of_a_node_read_what_comes_once(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 10)
    content = part_bytes(label, 3_000_000)
    another = AgentSnapshotClient(
        node.server.name, WorkerHello(rank=1, local_rank=1, world=2, nproc=2, round=1)
    )
    with (
        giver(content, size=len(content)) as only_once,
        node.memory.fetch(only_once.address, label) as one,
        another.fetch(only_once.address, label) as other,
    ):
        for part in (one, other):
            part.need(len(content))
            assert part.buffer == content
    another.close()


def test_what_is_on_its_way_is_not_waited_for_after_training_goes_on(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 10)
    content = part_bytes(label, 3_000_000)
    with (
        giver(content[:1000], size=len(content)) as slow,
        node.memory.fetch(slow.address, label) as part,
    ):
        node.memory.resumed(5)
        with pytest.raises(SnapshotRequestRefused, match="the fetch was cancelled"):
            part.need(len(content))


def test_a_part_is_fetched_once_a_node(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    with second.memory.fetch(first.peers.address, label) as part:
        part.need(part.size)
    first.keeper.peers.close()
    with second.memory.fetch(first.peers.address, label) as part:
        assert is_whole(label, part.buffer)
