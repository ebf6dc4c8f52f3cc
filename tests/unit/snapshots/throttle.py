"""A slow network between two nodes: a TCP proxy with a limit of bytes a second."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

PIECE = 64 * 1024


class Throttle:
    """Forwards connections to ``target``. ``rate``: bytes a second from the caller to the called,
    all connections together; it may be changed at any time."""

    def __init__(self, target: str, *, rate: float) -> None:
        self.rate = rate
        self.passed = 0
        """Bytes of all callers."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pacing = threading.Lock()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
                host, _, port = self._target.rpartition(":")
                called = socket.create_connection((host, int(port)))
                for source, sink, paced in ((caller, called, True), (called, caller, False)):
                    threading.Thread(
                        target=self._forward, args=(source, sink, paced), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, sink: socket.socket, paced: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                if paced:
                    self._pace(len(piece))
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pace(self, count: int) -> None:
        with self._pacing:
            self.passed += count
            due = time.monotonic()
            while time.monotonic() - due < count / self.rate:
                time.sleep(0.001)


@contextlib.contextmanager
def throttled(target: str, *, rate: float) -> Iterator[Throttle]:
    throttle = Throttle(target, rate=rate)
    try:
        yield throttle
    finally:
        throttle.close()
