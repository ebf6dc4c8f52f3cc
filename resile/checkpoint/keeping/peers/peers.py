"""The connection of a node's snapshot server to its peers: listen, replicate, fetch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.keeping.holdings import Holdings
from resile.checkpoint.keeping.peers.arrival import Arrival
from resile.checkpoint.keeping.peers.asking import copy_to, fetch_from, headers_from
from resile.checkpoint.keeping.peers.calls import Calls
from resile.checkpoint.keeping.peers.copier import Copier
from resile.checkpoint.keeping.peers.door import Door
from resile.checkpoint.keeping.peers.lookup import Lookup
from resile.checkpoint.keeping.peers.transfers import Transfers
from resile.checkpoint.part import PartKind
from resile.checkpoint.slots import Label, PartPlace
from resile.checkpoint.writing import Carrier

__all__ = ["Peers"]


class Peers:
    """A :class:`~resile.checkpoint.keeping.neighbourhood.Neighbourhood` over TCP.

    ``host``: this node's own address; raises OSError if it cannot listen on it.
    """

    def __init__(
        self,
        host: str,
        *,
        token: str,
        holdings: Holdings,
        carrier: Carrier,
        news: Callable[[int, str], None],
    ) -> None:
        self._calls = Calls(token)
        self._holdings = holdings
        self._transfers = Transfers(carrier)
        self._door = Door(host, token=token, holdings=holdings, transfers=self._transfers)
        self._copier = Copier(
            partial(copy_to, token=token), holdings=holdings, transfers=self._transfers, news=news
        )
        self._lookup = Lookup(self._headers)
        self._arrivals: dict[Label, Arrival] = {}
        self._lock = threading.Lock()
        self.address = f"[{host}]:{self._door.port}" if ":" in host else f"{host}:{self._door.port}"

    @property
    def next(self) -> str:
        """The address that copies go to; empty for none."""
        return self._copier.next

    @property
    def copied(self) -> int | None:
        """The newest step of which the next node has acknowledged every part."""
        return self._copier.copied

    @property
    def pending(self) -> bool:
        """Whether parts remain to be copied to the next node."""
        return self._copier.pending

    @property
    def trouble(self) -> str:
        """The error of the latest copy; empty if it succeeded."""
        return self._copier.trouble

    def turn_to(self, address: str) -> None:
        """Send copies to this address from now on, starting with the parts held already."""
        if address == self.address:
            address = ""
        if self._copier.turn_to(address):
            held = [one.label for one in self._holdings.inventory() if not one.is_copy]
            ours = [label for label in held if label.place.kind is PartKind.RANK]
            parts = Counter(map(_moment, ours))
            for label in sorted(ours, key=_moment):
                self._copier.send(label, parts=parts[_moment(label)])

    def send(self, label: Label, *, parts: int) -> None:
        """Copy a rank part to the next node; replica parts are on every node anyway."""
        self._transfers.saved(label)
        if label.place.kind is PartKind.RANK:
            self._copier.send(label, parts=parts)

    def wanted(self, place: PartPlace, step: int) -> None:
        """A worker waits for the memory of a part that is being copied."""
        self._copier.wanted(place, step)

    def workers_hold(self, holding: bool) -> None:
        """While workers hold, all transfers are urgent."""
        self._transfers.workers_hold(holding)
        self._copier.workers_hold(holding)

    def forget_after(self, step: int) -> None:
        """Do not copy steps after ``step``."""
        self._copier.forget_after(step)

    def fetch(self, address: str, label: Label) -> Arrival | None:
        """Start to fetch a part into this node's memory, once for all its workers; None if it is
        here already."""
        with self._lock:
            arrival = self._arrivals.get(label)
            if arrival is not None and not arrival.failed:
                return arrival
            if any(held.label == label for held in self._holdings.inventory()):
                return None
            self._arrivals[label] = Arrival(partial(self._fetch, address, label))
            return self._arrivals[label]

    def arrived(self, number: int, until: int) -> int:
        """Wait until at least ``until`` bytes of a fetched part are here, and return their number;
        raises the same as :meth:`Arrival.wait`."""
        with self._lock:
            arrivals = [one for one in self._arrivals.values() if one.number == number]
        if not arrivals:
            raise PeerTrouble("the fetch was cancelled")
        return arrivals[0].wait(until)

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of parts on another node, fetched once for all workers."""
        return self._lookup.headers(address, labels)

    def settle(self) -> None:
        """Restoring is over: drop caches and idle connections."""
        self._lookup.forget()
        with self._lock:
            arrivals, self._arrivals = self._arrivals, {}
        for arrival in arrivals.values():
            arrival.forget()
        self._calls.hang_up()

    def close(self) -> None:
        """Stop listening and sending."""
        self._copier.close()
        self._calls.hang_up()
        self._door.close()

    def _fetch(self, address: str, label: Label, arrival: Arrival) -> None:
        fetch_from(address, label, calls=self._calls, holdings=self._holdings, arrival=arrival)

    def _headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        return headers_from(address, labels, calls=self._calls, holdings=self._holdings)


def _moment(label: Label) -> tuple[int, int]:
    return label.round, label.step
