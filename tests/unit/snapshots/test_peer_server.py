"""Unauthenticated clients of a keeper: they block no other, and are disconnected."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from resile.snapshots.peers import frames, server
from resile.snapshots.peers.connections import authenticate
from resile.snapshots.peers.frames import AnswerDecoder, Wanted
from tests.local.commands import wait_for
from tests.local.snapshots.parts import RANK, copy_to, label_of
from tests.unit.snapshots.nodes import TOKEN, MakeNode, Node, nodes


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


def called(node: Node) -> socket.socket:
    host, _, port = node.peers.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@contextlib.contextmanager
def dripping(node: Node, count: int, *, pause: float) -> Iterator[list[socket.socket]]:
    """Connections that send a long frame byte by byte."""
    over = threading.Event()
    connections = [called(node) for _ in range(count)]

    def drip() -> None:
        while not over.wait(pause):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(b"\0")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield connections
    finally:
        over.set()
        thread.join()
        for connection in connections:
            connection.close()


def is_ended(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        while connection.recv(4096):
            continue
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_connections_that_drip_bytes_keep_no_peer_out(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    with dripping(second, 2 * server.MOST_CALLERS, pause=0.5):
        copy_to(first.memory, second.peers.address)
        wait_for(lambda: second.has(label), "the copy", timeout=4)


def test_a_proof_has_one_deadline_however_its_bytes_come(
    make: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROOF_LIMIT", 0.5)
    node = make(0)
    with dripping(node, 3, pause=0.1) as connections:
        wait_for(lambda: all(map(is_ended, connections)), "their end")


def test_strangers_never_displace_who_has_proven_to_belong_to_the_job(make: MakeNode) -> None:
    node = make(0)
    with called(node) as peer:
        authenticate(peer, TOKEN)
        with dripping(node, 2 * server.MOST_PENDING, pause=0.5):
            time.sleep(0.1)
            frames.send(peer, Wanted(label=label_of(node.worker, RANK, 10)))
            answer = frames.receive(peer, AnswerDecoder)
            assert isinstance(answer, frames.No)
            assert "not held here" in answer.reason
