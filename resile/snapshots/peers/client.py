"""Requests to another node's snapshot server: copy a part to it, fetch a part, fetch headers.

A restoring worker need not wait for the last byte of a part: it can copy what is here while the
rest is being received. So a thread receives the bytes, and each worker waits for as many as it
needs.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
from collections.abc import Callable

from resile.checkpoint.errors import CheckpointError
from resile.snapshots.errors import PeerError
from resile.snapshots.held_part import LARGEST_WITH_LENGTH, LENGTH_FIELD
from resile.snapshots.memory import reopen
from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import ConnectionPool, connect_once
from resile.snapshots.peers.frames import (
    Answer,
    AnswerDecoder,
    Arrived,
    Coming,
    GoOn,
    HeaderComing,
    HeadersWanted,
    Kept,
    No,
    Offer,
    Wanted,
    Whole,
)
from resile.snapshots.peers.replicator import LockedPart
from resile.snapshots.peers.transfers import Transfer
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import Label
from resile.snapshots.splice import pull

__all__ = [
    "IncomingPart",
    "copy_to",
    "fetch_from",
    "headers_from",
]


log = logging.getLogger("resile.checkpoint")

_numbers = itertools.count(1)


class IncomingPart:
    """A fetch in progress. ``fetch`` calls ``begin`` once, ``came`` as bytes arrive, and returns
    when all have; its exception is raised in every waiting caller."""

    def __init__(self, fetch: Callable[[IncomingPart], None]) -> None:
        self.number = next(_numbers)
        """Unique: tells this fetch from an earlier one of the same part, in other memory."""
        self._slot = -1
        self._size = 0
        self._come = 0
        self._error: CheckpointError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, args=(fetch,), name="resile-fetch", daemon=True).start()

    @property
    def failed(self) -> bool:
        """Whether the fetch failed."""
        return self._error is not None

    def begin(self, slot: int, size: int) -> None:
        """The bytes will be written to ``slot``, which the caller still owns."""
        with self._changed:
            if not self.failed:
                self._slot, self._size = reopen(slot), size
                self._changed.notify_all()

    def came(self, count: int) -> None:
        """``count`` bytes are here."""
        with self._changed:
            self._come = count
            self._changed.notify_all()

    def opened(self) -> tuple[int, int]:
        """Wait for the start; returns a descriptor of the memory, which the caller must close, and
        the part's size. Raises the error if the fetch failed before its start."""
        with self._changed:
            self._changed.wait_for(lambda: self._slot >= 0 or self.failed)
            if self._slot < 0:
                assert self._error is not None
                raise self._error
            return reopen(self._slot), self._size

    def wait(self, until: int) -> int:
        """Wait for at least ``until`` bytes; returns how many are here. Raises the fetch's
        error."""
        with self._changed:
            self._changed.wait_for(lambda: self._come >= until or self.failed)
            if self._come < until and self._error is not None:
                raise self._error
            return self._come

    def forget(self) -> None:
        """Cancel and close the descriptor; callers of ``opened`` keep their own."""
        with self._changed:
            if self._slot >= 0:
                os.close(self._slot)
                self._slot = -1
            self._error = self._error or PeerError("the fetch was cancelled")
            self._changed.notify_all()

    def _run(self, fetch: Callable[[IncomingPart], None]) -> None:
        error: CheckpointError | None = None
        try:
            fetch(self)
        except CheckpointError as problem:
            error = problem
        except Exception as problem:
            log.exception("a part could not be fetched")
            error = PeerError(f"{type(problem).__name__}: {problem}")
        if error is not None:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()


SMALL = 1 << 20
"""Bytes of headers that are accepted without checking the free memory."""


def copy_to(address: str, part: LockedPart, transfer: Transfer, *, token: str) -> None:
    """Copy a part to another server; raises :class:`PeerError`.

    The part stays locked until the other side has all of it, because the kernel sends the slot's
    own pages. If it is given up before, the other side never receives :class:`Whole`.
    """
    with connect_once(address, token) as connection, transfer.over(connection):
        again = part.version > 1
        frames.send(connection, Offer(label=part.label, size=part.size, again=again))
        if isinstance(_answer(connection), Kept):
            return
        transfer.push(part.descriptor, connection, length=part.size)
        if not isinstance(_answer(connection), Arrived):
            raise PeerError("it did not confirm that all bytes arrived")
        frames.send(connection, Whole())
        if not isinstance(_answer(connection), Kept):
            raise PeerError("it did not confirm that it keeps the part")


def fetch_from(
    address: str, label: Label, *, calls: ConnectionPool, slots: SlotTable, arrival: IncomingPart
) -> None:
    """Fetch a part into this node's memory.

    Raises :class:`PeerError` or :class:`NoMemoryForSnapshot`.
    """
    with calls.to(address) as connection:
        frames.send(connection, Wanted(label=label))
        coming = _answer(connection)
        if not isinstance(coming, Coming):
            raise PeerError(f"unexpected answer {type(coming).__name__}")
        filling = slots.fill(label, coming.size)
        if filling is None:
            raise PeerError(f"the memory for {label.place.name} is in use on this node")
        whole = False
        try:
            arrival.begin(filling.descriptor, coming.size)
            pull(filling.descriptor, connection, length=coming.size, came=arrival.came)
            whole = True
        finally:
            filling.complete() if whole else filling.abandon()
        frames.send(connection, Arrived())


def headers_from(
    address: str, labels: tuple[Label, ...], *, calls: ConnectionPool, slots: SlotTable
) -> tuple[bytes, ...]:
    """Fetch the headers of parts that another server holds, empty for missing ones.

    Raises :class:`PeerError` or, if they are too large for this node, :class:`NoMemoryForSnapshot`.
    """
    found: list[bytes] = []
    total, affordable = 0, SMALL
    with calls.to(address) as connection:
        frames.send(connection, HeadersWanted(labels=labels))
        for label in labels:
            coming = frames.receive(connection, AnswerDecoder)
            if isinstance(coming, No):
                found.append(b"")
                continue
            length = _header_length(coming, label)
            total += length
            if total > affordable:
                affordable = 2 * total
                slots.afford(affordable)
            found.append(frames.receive_exactly(connection, length))
    return tuple(found)


def _header_length(coming: Answer, label: Label) -> int:
    if not isinstance(coming, HeaderComing):
        raise PeerError(f"unexpected answer {type(coming).__name__}")
    if not LENGTH_FIELD < coming.length <= LARGEST_WITH_LENGTH:
        raise PeerError(f"the header of {label.name} cannot have {coming.length} bytes")
    return coming.length


def _answer(connection: socket.socket) -> Answer:
    answer = frames.receive(connection, AnswerDecoder)
    if isinstance(answer, No):
        raise PeerError(answer.reason)
    if not isinstance(answer, GoOn | Arrived | Kept | Coming):
        raise PeerError(f"unexpected answer {type(answer).__name__}")
    return answer
