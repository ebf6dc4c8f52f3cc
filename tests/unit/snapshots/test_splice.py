"""Parts over a connection: every byte in its place, whatever the chunks."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.snapshots import memory
from resile.snapshots.slots import BEGIN
from resile.snapshots.splice import pull, push


@pytest.fixture
def slot() -> Iterator[int]:
    descriptor = memory.create()
    yield descriptor
    os.close(descriptor)


def _pattern(length: int) -> bytes:
    return (b"0123456789abcdef!" * (length // 17 + 1))[:length]


def _send_pieces(connection: socket.socket, pieces: Sequence[bytes]) -> None:
    with connection:
        for piece in pieces:
            connection.sendall(piece)


def _pulled(slot: int, pieces: Sequence[bytes], length: int) -> bytes:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        sending = threading.Thread(target=_send_pieces, args=(sender, pieces))
        receiver, _ = listener.accept()
        with receiver:
            sending.start()
            try:
                pull(slot, receiver, length=length)
            finally:
                sending.join()
    return os.pread(slot, length + 1, BEGIN)


@pytest.mark.parametrize("length", [0, 1, 4095, 4097, 5_000_003])
def test_a_part_arrives_as_it_was_sent(slot: int, length: int) -> None:
    content = _pattern(length)
    source = memory.create()
    memory.grow(source, BEGIN + length)
    os.pwrite(source, content, BEGIN)
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sending = threading.Thread(
            target=lambda: push(source, sender, length=length), name="a sender"
        )
        sending.start()
        pull(slot, receiver, length=length)
        sending.join()
    os.close(source)
    assert os.pread(slot, length + 1, BEGIN) == content


@given(cuts=st.lists(st.integers(0, 20_000), max_size=8))
def test_pieces_of_any_size_are_put_together(cuts: list[int]) -> None:
    content = _pattern(20_000)
    bounds = [0, *sorted(cuts), len(content)]
    pieces = [content[a:b] for a, b in itertools.pairwise(bounds)]
    descriptor = memory.create()
    try:
        assert _pulled(descriptor, pieces, len(content)) == content
    finally:
        os.close(descriptor)


def test_nothing_is_taken_that_comes_after_the_part(slot: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"the part, and then the next word")
        pull(slot, ours, length=8)
        assert ours.recv(100) == b", and then the next word"
    assert os.pread(slot, 100, BEGIN) == b"the part"


def test_a_part_that_breaks_off_says_how_far_it_came(slot: int) -> None:
    with pytest.raises(ConnectionError, match="ended after 1000 of 5000 bytes"):
        _pulled(slot, [_pattern(1000)], 5000)
