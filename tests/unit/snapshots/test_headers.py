"""The headers of parts on other nodes are fetched without the parts' data."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.checkpoint.part import PartHeader, Slice, lay_out, read_header
from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.messages import WorkerHello
from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import authenticate, authenticate_caller
from resile.snapshots.peers.frames import (
    AnswerDecoder,
    Coming,
    HeaderComing,
    HeadersWanted,
    Kept,
    No,
    PeerMessageDecoder,
    Wanted,
)
from resile.snapshots.slots import Label
from tests.local.commands import wait_for
from tests.local.snapshots.parts import RANK, REPLICA, label_of, part_bytes, save
from tests.unit.snapshots.nodes import TOKEN, MakeNode, Node, hung_up, nodes


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


def _header(label: Label, data: int = 10_000) -> bytes:
    content = part_bytes(label, data)
    return read_header(memoryview(content), source=label.name)[1].header


def test_headers_come_without_the_parts(make: MakeNode) -> None:
    first, second = make(0), make(1)
    labels = [first.save(10), save(first.memory, first.worker, step=10, kind=REPLICA)]
    found = second.memory.headers(first.peers.address, labels)
    assert found == [_header(label) for label in labels]
    assert second.memory.inventory() == ()


def test_a_part_that_is_not_there_has_no_header(make: MakeNode) -> None:
    first, second = make(0), make(1)
    held, gone = first.save(10), label_of(first.worker, RANK, 99)
    found = second.memory.headers(first.peers.address, [gone, held, gone])
    assert found == [b"", _header(held), b""]


def test_a_part_that_is_being_written_has_no_header(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = label_of(first.worker, RANK, 10)
    filling = first.holdings.fill(label, 10_000)
    assert filling is not None
    assert second.memory.headers(first.peers.address, [label]) == [b""]
    filling.abandon()


def test_a_part_whose_header_cannot_be_has_none(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = label_of(first.worker, RANK, 10)
    first.put(label, b"\xff" * 5000)
    assert second.memory.headers(first.peers.address, [label]) == [b""]


def _large(label: Label) -> bytes:
    slices = {f"layer{n}.weight": Slice(dtype="U8", shape=(1,)) for n in range(5000)}
    place = label.place
    layout = lay_out(
        PartHeader(
            step=label.step,
            kind=place.kind,
            index=place.index,
            count=place.count,
            world=label.world,
            slices=slices,
        )
    )
    return layout.header + bytes(layout.size - len(layout.header))


def test_headers_may_be_larger_than_a_packet(make: MakeNode) -> None:
    first, second = make(0), make(1)
    labels = [label_of(first.worker, kind, 10) for kind in (RANK, REPLICA)]
    for label in labels:
        first.put(label, _large(label))
    found = second.memory.headers(first.peers.address, labels)
    assert [len(header) > 256 * 1024 for header in found] == [True, True]
    assert all(
        _large(label).startswith(header) for label, header in zip(labels, found, strict=True)
    )


def test_headers_that_do_not_fit_are_not_taken_in(make: MakeNode) -> None:
    first, second = make(0), make(1, limit=1 << 20)
    labels = [label_of(first.worker, kind, 10) for kind in (RANK, REPLICA)]
    for label in labels:
        first.put(label, _large(label))
    with pytest.raises(NoMemoryForSnapshot):
        second.memory.headers(first.peers.address, labels)


def test_more_headers_than_fit_into_one_request_come(make: MakeNode) -> None:
    first, second = make(0), make(1)
    held, gone = first.save(10), label_of(first.worker, RANK, 99)
    found = second.memory.headers(first.peers.address, [gone] * 450 + [held])
    assert found == [b""] * 450 + [_header(held)]


def test_workers_of_one_node_ask_once_until_training_goes_on(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    expected = second.memory.headers(first.peers.address, [label])
    first.peers.close()
    another = AgentSnapshotClient(
        second.server.name, WorkerHello(rank=2, local_rank=1, world=2, nproc=2, round=1)
    )
    assert another.headers(first.peers.address, [label]) == expected
    another.close()
    second.memory.resumed(10)
    with pytest.raises(SnapshotRequestRefused, match=r"snapshot server at 127\.0\.0\.1:"):
        second.memory.headers(first.peers.address, [label])


def test_a_new_round_asks_anew(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    second.memory.headers(first.peers.address, [label])
    wait_for(lambda: _forgotten(first), "its slot let go by who answered")
    later = AgentSnapshotClient(second.server.name, msgspec.structs.replace(second.worker, round=2))
    assert later.headers(first.peers.address, [label]) == [b""]
    later.close()


def test_headers_are_for_the_job_alone(make: MakeNode) -> None:
    first, stranger = make(0), make(1, token="the token of another job")
    label = first.save(10)
    with pytest.raises(SnapshotRequestRefused, match="wrong job token"):
        stranger.memory.headers(first.peers.address, [label])


def _forgotten(node: Node) -> bool:
    """Whether nothing is held any more; a slot that is still being read cannot be freed."""
    node.holdings.discard_after(0)
    return not node.holdings.inventory()


@contextmanager
def _impostor(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a peer that knows the token, and responds to a request for headers wrongly."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            assert authenticate_caller(connection, TOKEN)
            assert isinstance(frames.receive(connection, PeerMessageDecoder), HeadersWanted)
            speak(connection)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        serving.join(30)
        listening.close()


def _half_a_header(connection: socket.socket) -> None:
    frames.send(connection, HeaderComing(length=5000))
    connection.sendall(bytes(100))


@pytest.mark.parametrize(
    ("speak", "complaint"),
    [
        (lambda line: frames.send(line, Coming(size=100)), "unexpected answer Coming"),
        (lambda line: frames.send(line, Kept()), "unexpected answer Kept"),
        (lambda line: frames.send(line, HeaderComing(length=1 << 40)), "cannot have 10995"),
        (lambda line: frames.send(line, HeaderComing(length=3)), "cannot have 3 bytes"),
        (lambda line: frames.send(line, {"type": "HeaderComing", "length": -1}), "not a message"),
        (lambda line: line.sendall(struct.pack("!I", 1 << 31)), "a frame of 2147483648 bytes"),
        (lambda line: line.sendall(b"\0\0\0\x02hi"), "not a message of a snapshot server"),
        (_half_a_header, "connection closed"),
        (lambda _: None, "connection closed"),
    ],
)
def test_nonsense_for_a_header_is_refused_and_the_keeper_goes_on(
    speak: Callable[[socket.socket], None], complaint: str, make: MakeNode
) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    with _impostor(speak) as address, pytest.raises(SnapshotRequestRefused, match=complaint):
        second.memory.headers(address, [label])
    assert second.memory.headers(first.peers.address, [label]) == [_header(label)]


def _admitted(node: Node) -> socket.socket:
    host, _, port = node.peers.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    authenticate(connection, TOKEN)
    return connection


def test_a_request_for_too_many_headers_is_hung_up_on(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 10)
    with _admitted(node) as connection:
        frames.send(connection, HeadersWanted(labels=(label,) * 2000))
        assert hung_up(connection)


def test_who_asks_for_no_headers_gets_none(make: MakeNode) -> None:
    node = make(0)
    with _admitted(node) as connection:
        frames.send(connection, HeadersWanted(labels=()))
        frames.send(connection, Wanted(label=label_of(node.worker, RANK, 99)))
        answer = frames.receive(connection, AnswerDecoder)
        assert answer == No(reason="step 99 of rank-00000-of-00002 is not held here")


def test_who_asks_for_a_label_of_nonsense_is_told(make: MakeNode) -> None:
    node = make(0)
    label = label_of(node.worker, RANK, 1 << 60)
    with _admitted(node) as connection:
        frames.send(connection, HeadersWanted(labels=(label,)))
        assert isinstance(frames.receive(connection, AnswerDecoder), No)
