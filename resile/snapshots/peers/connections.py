"""Authenticated connections to other nodes' snapshot servers.

Both sides prove that they know the job's token without sending it:

    called -> caller    a nonce
    caller -> called    another nonce, and HMAC(token, "caller" + both)
    called -> caller    HMAC(token, "called" + both)

An eavesdropper learns nothing that can be replayed. The parts themselves are sent unencrypted, as
the workers' own collectives are: keep a job's nodes on a private network.

Connecting and authenticating takes several messages, which is cheap unless all cores are busy with
restoring workers. So a restoring node keeps a few connections open (:data:`MOST_KEPT`) until
training continues; keeping all would exceed the peers' connection limits in large jobs, since a
node contacts every other one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from resile.snapshots.errors import PeerError
from resile.snapshots.peers import frames
from resile.snapshots.peers.frames import AnswerDecoder, Challenge, No, PeerMessageDecoder, Proof
from resile.snapshots.splice import IDLE_LIMIT
from resile.system.readiness import is_readable

__all__ = [
    "ConnectionPool",
    "authenticate",
    "authenticate_caller",
    "connect_once",
]


NONCE = 32


def authenticate_caller(
    connection: socket.socket, token: str, *, deadline: float | None = None
) -> bool:
    """Authenticate a caller; returns whether it belongs to the job, and sends a refusal if not.

    ``deadline``: of the monotonic clock, for the whole exchange; raises TimeoutError.
    """
    mine = secrets.token_bytes(NONCE)
    frames.send(connection, Challenge(mine))
    proof = frames.receive(connection, PeerMessageDecoder, deadline=deadline)
    if not isinstance(proof, Proof) or len(proof.nonce) != NONCE:
        raise PeerError("the caller did not authenticate")
    if not hmac.compare_digest(proof.code, _code(token, b"caller", mine + proof.nonce)):
        frames.send(connection, No(reason="wrong job token"))
        return False
    frames.send(connection, Proof(b"", _code(token, b"called", mine + proof.nonce)))
    return True


def authenticate(connection: socket.socket, token: str, *, deadline: float | None = None) -> None:
    """Authenticate as the caller; raises :class:`PeerError` unless both have the same token.

    ``deadline``: of the monotonic clock, for the whole exchange; raises TimeoutError.
    """
    challenge = frames.receive(connection, AnswerDecoder, deadline=deadline)
    if not isinstance(challenge, Challenge) or len(challenge.nonce) != NONCE:
        raise PeerError("it is not a snapshot server")
    mine = secrets.token_bytes(NONCE)
    both = challenge.nonce + mine
    frames.send(connection, Proof(mine, _code(token, b"caller", both)))
    answer = frames.receive(connection, AnswerDecoder, deadline=deadline)
    if isinstance(answer, No):
        raise PeerError(answer.reason)
    if not isinstance(answer, Proof) or not hmac.compare_digest(
        answer.code, _code(token, b"called", both)
    ):
        raise PeerError("it does not know the job's token")


def _code(token: str, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(token.encode(), b"resile snapshots " + role + nonces, hashlib.sha256)


CONNECT_LIMIT = 5.0
"""Timeout in seconds: a server on a busy machine answers within one; a partitioned one never
does."""

RETRY_PAUSE = 0.05
"""Seconds until a retry after a server closed an unauthenticated connection."""

MOST_KEPT = 4
"""Maximum idle connections. A node contacts the nodes after it first, and fetches from them."""


class ConnectionPool:
    """A small pool of connections. No caller waits for another's connection."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._idle: dict[str, list[socket.socket]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def to(self, address: str) -> Iterator[socket.socket]:
        """A connection with no exchange in progress; it is closed on an error.

        Errors are raised as :class:`PeerError`, with the address.
        """
        with _naming(address):
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
def connect_once(address: str, token: str) -> Iterator[socket.socket]:
    """A connection for a single exchange; errors name its address."""
    with _naming(address), _connected(address, token) as connection:
        yield connection


def _connected(address: str, token: str) -> socket.socket:
    """Open an authenticated connection. With too many unauthenticated clients, the other side may
    close it before authentication is complete: then it is retried."""
    deadline = time.monotonic() + CONNECT_LIMIT
    while True:
        connection = _dial(address, deadline)
        try:
            authenticate(connection, token, deadline=deadline)
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


def _dial(address: str, deadline: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    left = max(0.001, deadline - time.monotonic())
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=left)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextmanager
def _naming(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise PeerError(f"snapshot server at {address}: {_reason(error)}") from None
    except PeerError as error:
        raise PeerError(f"snapshot server at {address}: {error}") from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
