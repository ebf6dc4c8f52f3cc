"""The connection of a node's snapshot server to its peers: listen, replicate, fetch.

Headers of parts on other nodes are cached for all workers of this node. The workers of a restoring
node request the same headers at about the same time: the answer to the first serves the others,
until training continues.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from resile.checkpoint.part import PartKind
from resile.snapshots.errors import PeerError
from resile.snapshots.peers.client import IncomingPart, copy_to, fetch_from, headers_from
from resile.snapshots.peers.connections import ConnectionPool
from resile.snapshots.peers.replicator import Replicator
from resile.snapshots.peers.server import PeerServer
from resile.snapshots.peers.transfers import Transfers
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import Label, PartPlace
from resile.snapshots.writer import WriterProcess

__all__ = [
    "HeaderCache",
    "Peers",
]


FetchHeaders = Callable[[str, tuple[Label, ...]], tuple[bytes, ...]]


@dataclass
class _Asked:
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the headers are fetched."""

    found: tuple[bytes, ...] | None = None


class HeaderCache:
    """``ask`` fetches the headers from a server; its errors are not cached."""

    def __init__(self, ask: FetchHeaders) -> None:
        self._ask = ask
        self._asked: dict[tuple[str, tuple[Label, ...]], _Asked] = {}
        self._table = threading.Lock()

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of these parts at that server, empty for missing ones."""
        with self._table:
            asked = self._asked.setdefault((address, labels), _Asked())
        with asked.lock:
            if asked.found is None:
                asked.found = self._ask(address, labels)
            return asked.found

    def forget(self) -> None:
        """Clear the cache. Never waits."""
        with self._table:
            self._asked = {}


class Peers:
    """A :class:`~resile.snapshots.peer_api.PeerApi` over TCP.

    ``host``: this node's own address; raises OSError if it cannot listen on it.
    """

    def __init__(
        self,
        host: str,
        *,
        token: str,
        slots: SlotTable,
        writer: WriterProcess,
        news: Callable[[int, str], None],
    ) -> None:
        self._connections = ConnectionPool(token)
        self._slots = slots
        self._transfers = Transfers(writer)
        self._server = PeerServer(host, token=token, slots=slots, transfers=self._transfers)
        self._replicator = Replicator(
            partial(copy_to, token=token), slots=slots, transfers=self._transfers, news=news
        )
        self._header_cache = HeaderCache(self._headers)
        self._arrivals: dict[Label, IncomingPart] = {}
        self._lock = threading.Lock()
        self.address = (
            f"[{host}]:{self._server.port}" if ":" in host else f"{host}:{self._server.port}"
        )

    @property
    def next(self) -> str:
        """The address that copies go to; empty for none."""
        return self._replicator.next

    @property
    def copied(self) -> int | None:
        """The newest step of which the next node has acknowledged every part."""
        return self._replicator.copied

    @property
    def pending(self) -> bool:
        """Whether parts remain to be copied to the next node."""
        return self._replicator.pending

    @property
    def trouble(self) -> str:
        """The error of the latest copy; empty if it succeeded."""
        return self._replicator.trouble

    def set_endpoint(self, address: str) -> None:
        """Send copies to this address from now on, starting with the parts held already."""
        if address == self.address:
            address = ""
        if self._replicator.set_endpoint(address):
            held = [one.label for one in self._slots.inventory() if not one.is_copy]
            ours = [label for label in held if label.place.kind is PartKind.RANK]
            parts = Counter(map(_moment, ours))
            for label in sorted(ours, key=_moment):
                self._replicator.send(label, parts=parts[_moment(label)])

    def send(self, label: Label, *, parts: int) -> None:
        """Copy a rank part to the next node; replica parts are on every node anyway."""
        self._transfers.saved(label)
        if label.place.kind is PartKind.RANK:
            self._replicator.send(label, parts=parts)

    def wanted(self, place: PartPlace, step: int) -> None:
        """A worker waits for the memory of a part that is being copied."""
        self._replicator.wanted(place, step)

    def workers_hold(self, holding: bool) -> None:
        """While workers hold, all transfers are urgent."""
        self._transfers.workers_hold(holding)
        self._replicator.workers_hold(holding)

    def forget_after(self, step: int) -> None:
        """Do not copy steps after ``step``."""
        self._replicator.forget_after(step)

    def fetch(self, address: str, label: Label) -> IncomingPart | None:
        """Start to fetch a part into this node's memory, once for all its workers; None if it is
        here already."""
        with self._lock:
            arrival = self._arrivals.get(label)
            if arrival is not None and not arrival.failed:
                return arrival
            if any(held.label == label for held in self._slots.inventory()):
                return None
            self._arrivals[label] = IncomingPart(partial(self._fetch, address, label))
            return self._arrivals[label]

    def arrived(self, number: int, until: int) -> int:
        """Wait until at least ``until`` bytes of a fetched part are here, and return their number;
        raises the same as :meth:`IncomingPart.wait`."""
        with self._lock:
            arrivals = [one for one in self._arrivals.values() if one.number == number]
        if not arrivals:
            raise PeerError("the fetch was cancelled")
        return arrivals[0].wait(until)

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of parts on another node, fetched once for all workers."""
        return self._header_cache.headers(address, labels)

    def settle(self) -> None:
        """Restoring is over: drop caches and idle connections."""
        self._header_cache.forget()
        with self._lock:
            arrivals, self._arrivals = self._arrivals, {}
        for arrival in arrivals.values():
            arrival.forget()
        self._connections.hang_up()

    def close(self) -> None:
        """Stop listening and sending."""
        self._replicator.close()
        self._connections.hang_up()
        self._server.close()

    def _fetch(self, address: str, label: Label, arrival: IncomingPart) -> None:
        fetch_from(address, label, calls=self._connections, slots=self._slots, arrival=arrival)

    def _headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        return headers_from(address, labels, calls=self._connections, slots=self._slots)


def _moment(label: Label) -> tuple[int, int]:
    return label.round, label.step
