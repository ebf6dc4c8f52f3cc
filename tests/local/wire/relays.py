"""A relay on loopback that can be cut: data is then dropped, as in a partitioned network, where
no connection is closed either."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from resile.wire.endpoint import Endpoint

__all__ = ["Relay"]


class Relay:
    """Forwards data to ``endpoint`` until it is cut."""

    def __init__(self, target: Endpoint) -> None:
        self._target = (target.host, target.port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint("127.0.0.1", self._door.getsockname()[1])
        self._passing = threading.Event()
        self._passing.set()
        self._sockets: list[socket.socket] = [self._door]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Drop everything from now on."""
        self._passing.clear()

    def close(self) -> None:
        self._passing.set()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                self._sockets.append(near)
                self._passing.wait()
                far = socket.create_connection(self._target)
                self._sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passing.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
