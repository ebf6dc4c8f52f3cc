"""The TCP server for other nodes: they leave copies of their parts, and fetch parts or headers.

One thread for each caller, up to a limit, until it disconnects or is idle for too long.
Unauthenticated connections have a small quota of their own and one deadline for the whole
authentication; they displace each other, and never an authenticated caller. A copy is complete only
when all its bytes arrived and its sender confirms that they did not change meanwhile: anything else
leaves the slot without a complete part, and the other slot untouched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from resile.checkpoint.errors import CheckpointError, NoMemoryForSnapshot
from resile.snapshots.errors import PeerError
from resile.snapshots.held_part import header_in
from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import authenticate_caller
from resile.snapshots.peers.frames import (
    Answer,
    Arrived,
    Coming,
    GoOn,
    HeaderComing,
    HeadersWanted,
    Kept,
    No,
    Offer,
    PeerMessageDecoder,
    Wanted,
    Whole,
)
from resile.snapshots.peers.transfers import Transfers
from resile.snapshots.slot_table import Filling, SlotTable
from resile.snapshots.slots import Label
from resile.snapshots.splice import IDLE_LIMIT, push
from resile.system.connection_quota import PendingConnection, connection_to_evict

__all__ = ["PeerServer"]

log = logging.getLogger("resile.checkpoint")

PROOF_LIMIT = 5.0
"""Timeout in seconds for the whole authentication: one round trip, on a busy machine."""

MOST_PENDING = 32
"""Maximum unauthenticated connections."""

MOST_CALLERS = 64
"""Maximum authenticated connections: every node of a large job may fetch from one."""

ACCEPT_PAUSE = 0.05
"""Seconds until a retry when the process has no file descriptor left for a caller."""

SLOT_LIMIT = 2.0
"""Seconds to wait for memory that is in use when a copy is offered: the writer process releases an
unfinished one as soon as it is scheduled."""

SLOT_PAUSE = 0.01


class PeerServer:
    """Listens on ``host``, on a free port; raises OSError if it cannot."""

    def __init__(self, host: str, *, token: str, slots: SlotTable, transfers: Transfers) -> None:
        self._token = token
        self._slots = slots
        self._transfers = transfers
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=MOST_CALLERS)
        self.port: int = self._socket.getsockname()[1]
        self._callers: set[socket.socket] = set()
        self._pending: dict[socket.socket, PendingConnection] = {}
        self._closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="resile-peers", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        with self._lock:
            self._closed = True
            connections = [self._socket, *self._callers, *self._pending]
        for connection in connections:
            _close_connection(connection)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, address = self._socket.accept()
            except OSError:
                time.sleep(ACCEPT_PAUSE)
                continue
            self._take_in(connection, str(address[0]))
            threading.Thread(
                target=self._receive, args=(connection,), name="resile-peer", daemon=True
            ).start()

    def _take_in(self, connection: socket.socket, address: str) -> None:
        """Add a new unauthenticated connection; the oldest may be closed for it."""
        with self._lock:
            if len(self._pending) >= MOST_PENDING:
                oldest = connection_to_evict(self._pending)
                del self._pending[oldest]
                _close_connection(oldest)
            self._pending[connection] = PendingConnection(address, time.monotonic())

    def _receive(self, connection: socket.socket) -> None:
        try:
            # Headers are many small packets: Nagle's algorithm would delay each.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(PROOF_LIMIT)
            if authenticate_caller(
                connection, self._token, deadline=time.monotonic() + PROOF_LIMIT
            ):
                self._prove(connection)
                connection.settimeout(IDLE_LIMIT)
                while True:
                    self._answer(connection)
        except (OSError, CheckpointError) as error:
            log.debug("a peer's snapshot connection broke: %s", error)
        except Exception:
            log.exception("a peer's snapshot request failed")
        finally:
            with self._lock:
                self._callers.discard(connection)
                self._pending.pop(connection, None)
            connection.close()

    def _prove(self, connection: socket.socket) -> None:
        """Mark a connection as authenticated: new connections no longer displace it."""
        with self._lock:
            known = self._pending.pop(connection, None) is not None
            if not known or len(self._callers) >= MOST_CALLERS or self._closed:
                raise PeerError("too many connections")
            self._callers.add(connection)

    def _answer(self, connection: socket.socket) -> None:
        ask = frames.receive(connection, PeerMessageDecoder)
        if isinstance(ask, Offer):
            frames.send(connection, self._keep(connection, ask))
        elif isinstance(ask, Wanted):
            self._give(connection, ask.label)
        elif isinstance(ask, HeadersWanted):
            for label in ask.labels:
                self._give_header(connection, label)
        else:
            raise PeerError(f"unexpected request {type(ask).__name__}")

    def _keep(self, connection: socket.socket, offer: Offer) -> Answer:
        label = offer.label
        newer = self._newer(label)
        if newer is not None and newer != label:
            return No(reason=f"{newer.name} is newer and held here")
        if newer is not None and not offer.again:
            return Kept()
        try:
            filling = self._memory_for(offer)
        except NoMemoryForSnapshot as error:
            return No(reason=str(error))
        if filling is None:
            return No(reason=f"the memory for {label.place.name} is in use")
        whole = False
        try:
            frames.send(connection, GoOn())
            with self._transfers.receive(label, connection) as transfer:
                transfer.pull(filling.descriptor, connection, length=offer.size)
            frames.send(connection, Arrived())
            whole = isinstance(frames.receive(connection, PeerMessageDecoder), Whole)
        finally:
            filling.complete() if whole else filling.abandon()
        return Kept() if whole else No(reason="the sender did not confirm the part")

    def _memory_for(self, offer: Offer) -> Filling | None:
        """A slot for a copy, after an unfinished earlier copy was released if necessary."""
        self._transfers.replace(offer.label.place)
        give_up = time.monotonic() + SLOT_LIMIT
        while (filling := self._slots.fill(offer.label, offer.size)) is None:
            if time.monotonic() > give_up:
                return None
            time.sleep(SLOT_PAUSE)
        return filling

    def _newer(self, label: Label) -> Label | None:
        """A part held here that makes the offered one unnecessary, if there is one."""
        for held in self._slots.inventory():
            mine = held.label
            if mine.place == label.place and (
                mine == label or (mine.round, mine.step) > (label.round, label.step)
            ):
                return mine
        return None

    def _give(self, connection: socket.socket, label: Label) -> None:
        """Send a part, in this thread and not at low priority: the other side is restoring. It
        stays locked until it has arrived, because the kernel sends the slot's own pages."""
        with self._held(connection, label) as held:
            if held is not None:
                descriptor, size = held
                frames.send(connection, Coming(size=size))
                push(descriptor, connection, length=size)
                frames.receive(connection, PeerMessageDecoder)

    def _give_header(self, connection: socket.socket, label: Label) -> None:
        """Send a header, read under the lock so that it does not change in between."""
        with self._held(connection, label) as held:
            if held is None:
                return
            header = header_in(*held)
        if header is None:
            frames.send(connection, No(reason=f"{label.name} is damaged"))
            return
        frames.send(connection, HeaderComing(length=len(header)))
        connection.sendall(header)

    @contextmanager
    def _held(self, connection: socket.socket, label: Label) -> Iterator[tuple[int, int] | None]:
        """Lock a part: its slot and size, or None after a refusal was sent."""
        held = self._slots.hold(label)
        if held is None:
            frames.send(connection, No(reason=f"{label.name} is not held here"))
            yield None
            return
        try:
            yield held
        finally:
            os.close(held[0])


def _close_connection(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
