"""Requests to another node's snapshot server: copy a part to it, fetch a part, fetch headers."""

from __future__ import annotations

import socket

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.keeping.headers import LARGEST_WITH_LENGTH, LENGTH_FIELD
from resile.checkpoint.keeping.holdings import Holdings
from resile.checkpoint.keeping.peers import frames
from resile.checkpoint.keeping.peers.arrival import Arrival
from resile.checkpoint.keeping.peers.calls import Calls, call
from resile.checkpoint.keeping.peers.copier import Part
from resile.checkpoint.keeping.peers.frames import (
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
from resile.checkpoint.keeping.peers.transfers import Transfer
from resile.checkpoint.moving import pull
from resile.checkpoint.slots import Label

__all__ = ["copy_to", "fetch_from", "headers_from"]

SMALL = 1 << 20
"""Bytes of headers that are accepted without checking the free memory."""


def copy_to(address: str, part: Part, transfer: Transfer, *, token: str) -> None:
    """Copy a part to another server; raises :class:`PeerTrouble`.

    The part stays locked until the other side has all of it, because the kernel sends the slot's
    own pages. If it is given up before, the other side never receives :class:`Whole`.
    """
    with call(address, token) as connection, transfer.over(connection):
        again = part.version > 1
        frames.send(connection, Offer(label=part.label, size=part.size, again=again))
        if isinstance(_answer(connection), Kept):
            return
        transfer.push(part.descriptor, connection, length=part.size)
        if not isinstance(_answer(connection), Arrived):
            raise PeerTrouble("it did not confirm that all bytes arrived")
        frames.send(connection, Whole())
        if not isinstance(_answer(connection), Kept):
            raise PeerTrouble("it did not confirm that it keeps the part")


def fetch_from(
    address: str, label: Label, *, calls: Calls, holdings: Holdings, arrival: Arrival
) -> None:
    """Fetch a part into this node's memory; raises :class:`PeerTrouble` or :class:`NoRoom`."""
    with calls.to(address) as connection:
        frames.send(connection, Wanted(label=label))
        coming = _answer(connection)
        if not isinstance(coming, Coming):
            raise PeerTrouble(f"unexpected answer {type(coming).__name__}")
        filling = holdings.fill(label, coming.size)
        if filling is None:
            raise PeerTrouble(f"the memory for {label.place.name} is in use on this node")
        whole = False
        try:
            arrival.begin(filling.descriptor, coming.size)
            pull(filling.descriptor, connection, length=coming.size, came=arrival.came)
            whole = True
        finally:
            filling.complete() if whole else filling.abandon()
        frames.send(connection, Arrived())


def headers_from(
    address: str, labels: tuple[Label, ...], *, calls: Calls, holdings: Holdings
) -> tuple[bytes, ...]:
    """Fetch the headers of parts that another server holds, empty for missing ones.

    Raises :class:`PeerTrouble` or, if they are too large for this node, :class:`NoRoom`.
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
                holdings.afford(affordable)
            found.append(frames.receive_exactly(connection, length))
    return tuple(found)


def _header_length(coming: Answer, label: Label) -> int:
    if not isinstance(coming, HeaderComing):
        raise PeerTrouble(f"unexpected answer {type(coming).__name__}")
    if not LENGTH_FIELD < coming.length <= LARGEST_WITH_LENGTH:
        raise PeerTrouble(f"the header of {label.name} cannot have {coming.length} bytes")
    return coming.length


def _answer(connection: socket.socket) -> Answer:
    answer = frames.receive(connection, AnswerDecoder)
    if isinstance(answer, No):
        raise PeerTrouble(answer.reason)
    if not isinstance(answer, GoOn | Arrived | Kept | Coming):
        raise PeerTrouble(f"unexpected answer {type(answer).__name__}")
    return answer
