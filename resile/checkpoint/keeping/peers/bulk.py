"""A part's bytes between two nodes in the background: done by the carrier, waited for here.

The carrier has the lowest priority and its own process; the keeper's threads only wait.
"""

from __future__ import annotations

import os
import queue
import socket

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.writing import Carrier, Failed, Finished, Progress, Receive, Send

__all__ = ["pull_behind", "push_behind"]


def push_behind(carrier: Carrier, slot: int, connection: socket.socket, *, length: int) -> None:
    """Send a slot's part; raises :class:`PeerTrouble`. ``slot`` stays the caller's."""
    _carry(carrier, Send(length=length), slot, connection)


def pull_behind(carrier: Carrier, slot: int, connection: socket.socket, *, length: int) -> None:
    """Fill a slot; raises :class:`PeerTrouble`. ``slot`` stays the caller's."""
    _carry(carrier, Receive(length=length), slot, connection)


def _carry(carrier: Carrier, order: Send | Receive, slot: int, connection: socket.socket) -> None:
    words: queue.Queue[Finished | Progress] = queue.Queue()
    carrier.submit(order, [os.dup(slot), os.dup(connection.fileno())], words.put)
    word = words.get()
    if isinstance(word, Failed):
        raise PeerTrouble(word.reason)
