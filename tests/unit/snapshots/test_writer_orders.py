"""The writer process carries out every order that its owner sent, however soon the owner died."""

from __future__ import annotations

import os
import socket
from itertools import chain, repeat

import pytest

from resile.snapshots import packets
from resile.snapshots.writer import __main__ as writer
from resile.snapshots.writer.messages import CollapsePages, Numbered, Order


class Taken:
    """Records the orders instead of carrying them out."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def begin(self, number: int, _order: Order, _descriptors: list[int]) -> None:
        self.numbers.append(number)


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@pytest.fixture
def _owner_dies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pid of the parent is another one from the second call on."""
    pids = chain([os.getppid()], repeat(os.getppid() + 1))
    monkeypatch.setattr(os, "getppid", lambda: next(pids))


@pytest.mark.usefixtures("_owner_dies_at_once")
def test_orders_sent_before_the_owner_died_are_taken() -> None:
    owner, line = pair()
    with owner, line:  # a forked child of the owner keeps its end open
        for number in (1, 2):
            packets.send(owner, Numbered(number, CollapsePages()))
        taken = Taken()
        writer._listen(line, taken)  # type: ignore[arg-type]
    assert taken.numbers == [1, 2]


def test_orders_are_taken_although_the_owner_left_answers_unread() -> None:
    owner, line = pair()
    with line:
        packets.send(owner, Numbered(1, CollapsePages()))
        line.send(b"an answer that nobody reads")
        owner.close()
        taken = Taken()
        writer._listen(line, taken)  # type: ignore[arg-type]
    assert taken.numbers == [1]
