"""Where other nodes' keepers knock: they leave copies of their parts, and fetch parts or headers.

A thread a caller, so many at most, until it hangs up or says nothing for a while. Strangers have a
small quota of their own and one deadline for their whole proof; they displace each other, and never
a caller that has proven to belong to the job. A copy is whole only when all its bytes
came and its sender says that they did not change meanwhile: anything else leaves the slot without a
whole part, and the one before untouched.
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

from resile.checkpoint.errors import CheckpointError, NoRoom
from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.keeping.headers import header_in
from resile.checkpoint.keeping.holdings import Filling, Holdings
from resile.checkpoint.keeping.peers import frames
from resile.checkpoint.keeping.peers.frames import (
    Answer,
    Arrived,
    AskDecoder,
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
from resile.checkpoint.keeping.peers.proof import admit
from resile.checkpoint.keeping.peers.transfers import Transfers
from resile.checkpoint.moving import IDLE_LIMIT, push
from resile.checkpoint.slots import Label
from resile.strangers import Stranger, displaced

__all__ = ["Door"]

log = logging.getLogger("resile.checkpoint")

PROOF_LIMIT = 5.0
"""Seconds a stranger has for its whole proof: one round trip, on a busy machine."""

MOST_STRANGERS = 32
"""Connections that have not proven yet that they belong to the job."""

MOST_CALLERS = 64
"""Those that have, at once: every node of a large job may fetch from one that has what it needs."""

ACCEPT_PAUSE = 0.05
"""Seconds, when the process has no file descriptor left for a caller."""

SLOT_LIMIT = 2.0
"""Seconds that memory may be in use when a copy is offered: the carrier lets go of an unfinished
one as soon as it has a processor."""

SLOT_PAUSE = 0.01


class Door:
    """Listens on ``host``, on a port of its own; raises OSError if that is not to be had."""

    def __init__(self, host: str, *, token: str, holdings: Holdings, transfers: Transfers) -> None:
        self._token = token
        self._holdings = holdings
        self._transfers = transfers
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=MOST_CALLERS)
        self.port: int = self._socket.getsockname()[1]
        self._callers: set[socket.socket] = set()
        self._strangers: dict[socket.socket, Stranger] = {}
        self._closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="resile-peers", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        with self._lock:
            self._closed = True
            connections = [self._socket, *self._callers, *self._strangers]
        for connection in connections:
            _hang_up(connection)
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
        """Count a new connection among the strangers; one of them may have to go for it."""
        with self._lock:
            if len(self._strangers) >= MOST_STRANGERS:
                oldest = displaced(self._strangers)
                del self._strangers[oldest]
                _hang_up(oldest)
            self._strangers[connection] = Stranger(address, time.monotonic())

    def _receive(self, connection: socket.socket) -> None:
        try:
            # Headers are many small pieces: none waits until the one before was confirmed.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(PROOF_LIMIT)
            if admit(connection, self._token, deadline=time.monotonic() + PROOF_LIMIT):
                self._prove(connection)
                connection.settimeout(IDLE_LIMIT)
                while True:
                    self._answer(connection)
        except (OSError, CheckpointError) as error:
            log.debug("a peer's call for snapshots broke off: %s", error)
        except Exception:
            log.exception("a peer's call for snapshots failed")
        finally:
            with self._lock:
                self._callers.discard(connection)
                self._strangers.pop(connection, None)
            connection.close()

    def _prove(self, connection: socket.socket) -> None:
        """A stranger turned out to belong to the job: no stranger displaces it any more."""
        with self._lock:
            known = self._strangers.pop(connection, None) is not None
            if not known or len(self._callers) >= MOST_CALLERS or self._closed:
                raise PeerTrouble("there is no room for another caller")
            self._callers.add(connection)

    def _answer(self, connection: socket.socket) -> None:
        ask = frames.receive(connection, AskDecoder)
        if isinstance(ask, Offer):
            frames.send(connection, self._keep(connection, ask))
        elif isinstance(ask, Wanted):
            self._give(connection, ask.label)
        elif isinstance(ask, HeadersWanted):
            for label in ask.labels:
                self._give_header(connection, label)
        else:
            raise PeerTrouble(f"{type(ask).__name__} is not what a caller begins with")

    def _keep(self, connection: socket.socket, offer: Offer) -> Answer:
        label = offer.label
        newer = self._newer(label)
        if newer is not None and newer != label:
            return No(reason=f"{newer.name} is newer and kept here")
        if newer is not None and not offer.again:
            return Kept()
        try:
            filling = self._memory_for(offer)
        except NoRoom as error:
            return No(reason=str(error))
        if filling is None:
            return No(reason=f"the memory for {label.place.name} is in use")
        whole = False
        try:
            frames.send(connection, GoOn())
            with self._transfers.receive(label, connection) as transfer:
                transfer.pull(filling.descriptor, connection, length=offer.size)
            frames.send(connection, Arrived())
            whole = isinstance(frames.receive(connection, AskDecoder), Whole)
        finally:
            filling.complete() if whole else filling.abandon()
        return Kept() if whole else No(reason="it was not said to be whole")

    def _memory_for(self, offer: Offer) -> Filling | None:
        """A slot for a copy, if need be when an unfinished earlier copy has been let go."""
        self._transfers.replace(offer.label.place)
        give_up = time.monotonic() + SLOT_LIMIT
        while (filling := self._holdings.fill(offer.label, offer.size)) is None:
            if time.monotonic() > give_up:
                return None
            time.sleep(SLOT_PAUSE)
        return filling

    def _newer(self, label: Label) -> Label | None:
        """What makes the offered part superfluous, if something does."""
        for held in self._holdings.inventory():
            mine = held.label
            if mine.place == label.place and (
                mine == label or (mine.round, mine.step) > (label.round, label.step)
            ):
                return mine
        return None

    def _give(self, connection: socket.socket, label: Label) -> None:
        """Somebody restores and waits: sent by this thread, not behind everything else. Held until
        all of it arrived: bytes on their way may still be this memory's own."""
        with self._held(connection, label) as held:
            if held is not None:
                descriptor, size = held
                frames.send(connection, Coming(size=size))
                push(descriptor, connection, length=size)
                frames.receive(connection, AskDecoder)

    def _give_header(self, connection: socket.socket, label: Label) -> None:
        """Read while it is held, so that it does not change between its length and last byte."""
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
        """A part's slot, held, and the part's size; who asks is told if it is not here."""
        held = self._holdings.hold(label)
        if held is None:
            frames.send(connection, No(reason=f"{label.name} is not held here"))
            yield None
            return
        try:
            yield held
        finally:
            os.close(held[0])


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
