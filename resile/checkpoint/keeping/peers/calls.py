"""Connections to other nodes' keepers.

To call and to prove who one is takes several messages, which is little, unless all cores are busy
with workers that restore: then each waits for its turn. So who restores keeps its first connections
until training goes on. Not all of them: it asks every node of the job for something, and each can
hear only so many at once.
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
"""Seconds: a keeper on a busy machine answers within one; a dark network never does."""

RETRY_PAUSE = 0.05
"""Seconds until a keeper that hung up on a stranger is called again."""

MOST_KEPT = 4
"""Connections. A node asks those first that come after it, and fetches from them."""


class Calls:
    """Connections, of which a few are kept. Nobody waits for another's."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._idle: dict[str, list[socket.socket]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def to(self, address: str) -> Iterator[socket.socket]:
        """A connection on which nothing is left unsaid; it is given up if something goes wrong.

        Raises :class:`PeerTrouble` for that, with the address.
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
        """Give up the connections that nobody uses."""
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
        """One that the other side has not ended meanwhile."""
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
    """A connection for one matter; trouble with it is told with its address."""
    with _told_with(address), _connected(address, token) as connection:
        yield connection


def _connected(address: str, token: str) -> socket.socket:
    """A connection on which both sides have proven that they belong to the job. Where strangers
    crowd in, the other side may hang up before it could be proven: then it is tried again."""
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
        raise PeerTrouble(f"the keeper at {address}: {_words(error)}") from None
    except PeerTrouble as error:
        raise PeerTrouble(f"the keeper at {address}: {error}") from None


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
