"""Connections to other nodes' snapshot servers.

Connecting and authenticating takes several messages, which is cheap unless all cores are busy with
restoring workers. So a restoring node keeps a few connections open (:data:`MOST_KEPT`) until
training continues; keeping all would exceed the peers' connection limits in large jobs, since a
node contacts every other one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.keeping.peers.proof import introduce
from resile.checkpoint.moving import IDLE_LIMIT
from resile.readiness import is_readable

__all__ = ["Calls", "call"]

CONNECT_LIMIT = 5.0
"""Timeout in seconds: a server on a busy machine answers within one; a partitioned one never
does."""

RETRY_PAUSE = 0.05
"""Seconds until a retry after a server closed an unauthenticated connection."""

MOST_KEPT = 4
"""Maximum idle connections. A node contacts the nodes after it first, and fetches from them."""


class Calls:
    """A small pool of connections. No caller waits for another's connection."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._idle: dict[str, list[socket.socket]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def to(self, address: str) -> Iterator[socket.socket]:
        """A connection with no exchange in progress; it is closed on an error.

        Errors are raised as :class:`PeerTrouble`, with the address.
        """
        with _told_with(address):
            connection = self._kept(address) or _connected(address, self._token)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._keep(address, connection)

    def hang_up(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, defaultdict(list)
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _keep(self, address: str, connection: socket.socket) -> None:
        with self._lock:
            if sum(map(len, self._idle.values())) < MOST_KEPT:
                self._idle[address].append(connection)
                return
        connection.close()

    def _kept(self, address: str) -> socket.socket | None:
        """An idle connection that the other side has not closed meanwhile."""
        with self._lock:
            kept = self._idle[address]
            while kept:
                connection = kept.pop()
                if not is_readable(connection):
                    return connection
                connection.close()
        return None


@contextmanager
def call(address: str, token: str) -> Iterator[socket.socket]:
    """A connection for a single exchange; errors name its address."""
    with _told_with(address), _connected(address, token) as connection:
        yield connection


def _connected(address: str, token: str) -> socket.socket:
    """Open an authenticated connection. With too many unauthenticated clients, the other side may
    close it before authentication is complete: then it is retried."""
    deadline = time.monotonic() + CONNECT_LIMIT
    while True:
        connection = _dialled(address, deadline)
        try:
            introduce(connection, token, deadline=deadline)
        except ConnectionError:
            connection.close()
            if time.monotonic() + RETRY_PAUSE >= deadline:
                raise
            time.sleep(RETRY_PAUSE)
        except BaseException:
            connection.close()
            raise
        else:
            connection.settimeout(IDLE_LIMIT)
            return connection


def _dialled(address: str, deadline: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    left = max(0.001, deadline - time.monotonic())
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=left)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextmanager
def _told_with(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise PeerTrouble(f"snapshot server at {address}: {_words(error)}") from None
    except PeerTrouble as error:
        raise PeerTrouble(f"snapshot server at {address}: {error}") from None


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
