"""Transfers of parts between two nodes: in the background first, at full priority when urgent.

The writer process moves the bytes at the lowest priority, so that training is not slowed down. On a
machine whose cores are all busy that can take far too long. So a transfer can be hurried: the
writer stops after the current piece, and the waiting thread moves the rest itself, at the priority
of the agent. (An unprivileged process cannot raise the priority of another.)

A node decides on its own: a transfer is late when a newer snapshot is complete on this node while
it is still in progress, which holds for both ends, and all transfers are urgent while workers hold.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from resile.snapshots.errors import PeerError
from resile.snapshots.memory import reopen
from resile.snapshots.slots import Label, PartPlace
from resile.snapshots.splice import pull, push
from resile.snapshots.writer import (
    Failed,
    Finished,
    Receive,
    Send,
    Stopped,
    WriteProgress,
    WriterProcess,
)

__all__ = ["Transfer", "Transfers"]

URGENT_AFTER_LATE = 20
"""Transfers that are urgent from the start after one was late: on such a busy machine the next
would be late as well, and even stopping the writer process takes long."""


class Transfer:
    """The transfer of one part. ``push`` or ``pull`` is called once; the rest from any thread."""

    def __init__(self, writer: WriterProcess, *, urgent: bool = False) -> None:
        self._writer = writer
        self._urgent = urgent
        self._given_up = False
        self._order: int | None = None
        self._background: Send | Receive | None = None
        self._words: queue.Queue[Finished | WriteProgress] = queue.Queue()
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()

    def push(self, slot: int, connection: socket.socket, *, length: int) -> None:
        """Send the part in a slot that the caller has locked; raises :class:`PeerError` or
        OSError.

        The writer process gets no lock of its own: it would release it only when scheduled.
        """
        moved = self._in_background(Send(length=length), reopen(slot), connection)
        push(slot, connection, length=length, begin=moved)

    def pull(self, slot: int, connection: socket.socket, *, length: int) -> None:
        """Fill a slot that the caller has locked; raises :class:`PeerError` or OSError.

        The writer process shares the lock, for as long as it might still write there.
        """
        moved = self._in_background(Receive(length=length), os.dup(slot), connection)
        pull(slot, connection, length=length, begin=moved)

    def hurry(self) -> None:
        """Move the rest at the priority of this process."""
        with self._lock:
            self._urgent = True
            order = self._order
        if order is not None:
            self._writer.stop(order)

    def give_up(self) -> None:
        """Give the transfer up."""
        with self._lock:
            self._given_up = True
            if isinstance(self._background, Send):
                self._words.put(Failed(reason="the transfer was given up"))
            if self._connection is not None:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    @property
    def given_up(self) -> bool:
        """Whether the transfer was given up."""
        return self._given_up

    @contextmanager
    def over(self, connection: socket.socket) -> Iterator[None]:
        """Close this connection if the transfer is given up meanwhile."""
        with self._lock:
            self._connection = connection
            if self._given_up:
                raise PeerError("the transfer was given up")
        try:
            yield
        finally:
            with self._lock:
                self._connection = None

    def _in_background(self, order: Send | Receive, slot: int, connection: socket.socket) -> int:
        """Transfer in the writer process; returns the bytes moved when it is stopped or done. Takes
        ownership of ``slot``."""
        with self._lock:
            if self._urgent or self._given_up:
                os.close(slot)
                return 0
            descriptors = [slot, os.dup(connection.fileno())]
            self._background = order
            self._order = self._writer.submit(order, descriptors, self._words.put)
        word = self._words.get()
        with self._lock:
            self._order = self._background = None
        if isinstance(word, Failed):
            raise PeerError(word.reason)
        return word.moved if isinstance(word, Stopped) else order.length


class Transfers:
    """All transfers to and from a node. Thread-safe."""

    def __init__(self, writer: WriterProcess) -> None:
        self._writer = writer
        self._under_way: dict[Transfer, Label] = {}
        self._incoming: dict[PartPlace, Transfer] = {}
        self._newest = (-1, -1)
        self._hold_still = False
        self._urgent_left = 0
        """The number of further transfers that are urgent because one was late."""
        self._lock = threading.Lock()

    @contextmanager
    def begin(self, label: Label) -> Iterator[Transfer]:
        """A transfer of a part."""
        with self._lock:
            urgent = self._is_urgent(label) or self._urgent_left > 0
            self._urgent_left = max(0, self._urgent_left - 1)
            transfer = Transfer(self._writer, urgent=urgent)
            self._under_way[transfer] = label
        try:
            yield transfer
        finally:
            with self._lock:
                del self._under_way[transfer]

    @contextmanager
    def receive(self, label: Label, connection: socket.socket) -> Iterator[Transfer]:
        """A transfer of a part to this node; its connection is closed if it is given up."""
        with self.begin(label) as transfer, transfer.over(connection):
            with self._lock:
                self._incoming[label.place] = transfer
            try:
                yield transfer
            finally:
                with self._lock:
                    if self._incoming.get(label.place) is transfer:
                        del self._incoming[label.place]

    def replace(self, place: PartPlace) -> None:
        """Give up an incoming copy: its sender offers another one of the same part."""
        with self._lock:
            transfer = self._incoming.get(place)
        if transfer is not None:
            transfer.give_up()

    def saved(self, label: Label) -> None:
        """A part of a step is complete on this node: transfers of earlier steps are late."""
        with self._lock:
            self._newest = max(self._newest, (label.round, label.step))
        self._hurry()

    def workers_hold(self, holding: bool) -> None:
        """Set whether all workers of the job wait, or soon will, for transfers."""
        with self._lock:
            self._hold_still = holding
        self._hurry()

    def _hurry(self) -> None:
        with self._lock:
            late = [one for one, label in self._under_way.items() if self._is_urgent(label)]
            if late and not self._hold_still:
                self._urgent_left = URGENT_AFTER_LATE
        for transfer in late:
            transfer.hurry()

    def _is_urgent(self, label: Label) -> bool:
        return self._hold_still or (label.round, label.step) < self._newest
