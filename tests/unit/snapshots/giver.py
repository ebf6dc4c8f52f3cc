"""A keeper that sends one part, or its beginning, and stays or disconnects as the test requests."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from resile.snapshots.peers import frames
from resile.snapshots.peers.connections import authenticate_caller
from resile.snapshots.peers.frames import Coming, PeerMessageDecoder, Wanted
from tests.unit.snapshots.nodes import TOKEN


class Giver:
    """Serves one caller, who must request a part, with ``content`` of a part of ``size`` bytes."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content = content
        self._size = size
        self._leaving = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._give)
        self._thread.start()

    def leave(self) -> None:
        """Close the connection, without another byte."""
        self._leaving.set()
        self._thread.join()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.leave()
        self._socket.close()

    def _give(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                assert authenticate_caller(connection, TOKEN)
                assert isinstance(frames.receive(connection, PeerMessageDecoder), Wanted)
                frames.send(connection, Coming(size=self._size))
                connection.sendall(self._content)
                self._leaving.wait()


@contextlib.contextmanager
def giver(content: bytes, *, size: int) -> Iterator[Giver]:
    """Run a giver during the block."""
    with contextlib.closing(Giver(content, size)) as made:
        yield made
