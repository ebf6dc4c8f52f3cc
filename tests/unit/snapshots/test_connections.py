"""Connections between keepers are kept during a restore, and no longer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from resile.snapshots.errors import PeerError
from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import MOST_KEPT, ConnectionPool
from resile.snapshots.peers.frames import AnswerDecoder, Coming, Wanted
from resile.snapshots.slots import Label
from tests.local.commands import wait_for
from tests.unit.snapshots.nodes import TOKEN, MakeNode, Node, nodes


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


@pytest.fixture
def calls() -> Iterator[ConnectionPool]:
    made = ConnectionPool(TOKEN)
    yield made
    made.hang_up()


def test_one_connection_serves_one_matter_after_the_other(
    make: MakeNode, calls: ConnectionPool
) -> None:
    node = make(0)
    with calls.to(node.peers.address) as first:
        pass
    with calls.to(node.peers.address) as second:
        assert second is first


def test_who_needs_one_meanwhile_gets_another(make: MakeNode, calls: ConnectionPool) -> None:
    address = make(0).peers.address
    with calls.to(address) as first, calls.to(address) as second:
        assert second is not first


def test_only_a_few_are_kept_so_that_every_node_can_be_asked(
    make: MakeNode, calls: ConnectionPool
) -> None:
    addresses = [make(rank).peers.address for rank in range(MOST_KEPT + 2)]
    used = []
    for address in addresses:
        with calls.to(address) as connection:
            used.append(connection)
    assert [one.fileno() >= 0 for one in used] == [True] * MOST_KEPT + [False] * 2


def test_a_connection_on_which_something_went_wrong_is_given_up(
    make: MakeNode, calls: ConnectionPool
) -> None:
    node = make(0)
    label = node.save(10)
    with pytest.raises(PeerError, match="half way"):
        _ask_and_fail(calls, node, label)
    with calls.to(node.peers.address) as second:
        frames.send(second, Wanted(label=label))
        coming = frames.receive(second, AnswerDecoder)
        assert isinstance(coming, Coming)
        frames.receive_exactly(second, coming.size)
        frames.send(second, frames.Arrived())


def test_a_connection_that_the_other_side_ended_is_not_used_again(calls: ConnectionPool) -> None:
    with nodes() as make:
        node = make(0)
        address = node.peers.address
        with calls.to(address) as connection:
            pass
    wait_for(lambda: _ended(connection), "the end of the connection")
    with pytest.raises(PeerError, match=f"snapshot server at {address}: "), calls.to(address):
        raise AssertionError("nobody is there")


def test_after_a_restore_no_connection_is_left(make: MakeNode) -> None:
    first, second = make(0), make(1)
    label = first.save(10)
    second.memory.headers(first.peers.address, [label])
    wait_for(lambda: len(first.peers._server._callers) == 1, "a connection")
    second.memory.resumed(10)
    wait_for(lambda: not first.peers._server._callers, "its end")


def _ask_and_fail(calls: ConnectionPool, node: Node, label: Label) -> None:
    with calls.to(node.peers.address) as connection:
        frames.send(connection, Wanted(label=label))
        raise PeerError("half way")


def _ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
