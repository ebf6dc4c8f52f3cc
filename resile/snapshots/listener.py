"""The socket of a snapshot server for its node's workers: an abstract Unix socket, a thread each.

No file is left behind, however the process ends. An abstract socket has no permissions, so the
kernel is asked for each client's user: only the server's own user (or root) is accepted. A worker
that sends an invalid request is disconnected; that is a bug, and affects no other worker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import struct
import threading

from resile.decoding import DecodeError, MsgpackDecoder
from resile.snapshots import packets
from resile.snapshots.messages import Request, RequestRefused, WorkerHello
from resile.snapshots.server import SnapshotServer

__all__ = ["SnapshotListener"]

log = logging.getLogger("resile.checkpoint")

_CREDENTIALS = struct.Struct("3i")


class SnapshotListener:
    """Accepts workers' connections and passes their requests to a snapshot server."""

    def __init__(self, server: SnapshotServer) -> None:
        self.name = f"@resile-{secrets.token_hex(8)}"
        """The socket's name, for RESILE_SNAPSHOTS."""
        self._server = server
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind("\0" + self.name[1:])
        self._door.listen(128)
        self._lines: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="resile-snapshots", daemon=True).start()

    def close(self) -> None:
        """Close the socket and all connections."""
        with self._lock:
            lines = [self._door, *self._lines]
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._door.accept()
                with self._lock:
                    self._lines.add(line)
                threading.Thread(
                    target=self._serve, args=(line,), name="resile-snapshots-conn", daemon=True
                ).start()

    def _serve(self, line: socket.socket) -> None:
        try:
            if _is_ours(line):
                self._converse(line)
        except (OSError, DecodeError) as error:
            log.debug("a worker's connection to the snapshot server broke: %s", error)
        except Exception:
            log.exception("a worker's request to the snapshot server failed")
        finally:
            with self._lock:
                self._lines.discard(line)
            line.close()

    def _converse(self, line: socket.socket) -> None:
        decoder = MsgpackDecoder[Request](Request)
        worker: WorkerHello | None = None
        while (received := packets.receive(line, decoder)) is not None:
            request, surplus = received
            _close_all(surplus)
            if isinstance(request, WorkerHello):
                worker = request
            if worker is None:
                packets.send(line, RequestRefused(reason="the first request must be Hello"))
                return
            answer, descriptors = self._server.answer(worker, request)
            try:
                packets.send(line, answer, descriptors)
            finally:
                _close_all(descriptors)


def _is_ours(line: socket.socket) -> bool:
    raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return user in (os.geteuid(), 0)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
