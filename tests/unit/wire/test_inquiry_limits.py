"""What listens at a master's address may be anything: its answer is read within limits."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from resile.wire import inquiry
from resile.wire.endpoint import Endpoint
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.inquiry import Inquiry

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@contextmanager
def answering(speak: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """Something that listens, and answers one request in its own way."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            try:
                speak(peer)
            except OSError:
                return  # the asker has hung up

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Endpoint("127.0.0.1", listener.getsockname()[1])
    finally:
        listener.close()
        thread.join(20)


def test_an_answer_without_end_is_refused() -> None:
    def endless(peer: socket.socket) -> None:
        peer.sendall(HEAD + b"\r\n")
        while True:
            peer.sendall(b" " * 65536)

    with answering(endless) as endpoint, pytest.raises(RefusedByPeer, match="longer than 65536"):
        Inquiry(endpoint, "t").view()


def test_a_compressed_answer_is_refused() -> None:
    body = gzip.compress(b" " * 10_000)

    def zipped(peer: socket.socket) -> None:
        peer.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n" + body)

    with answering(zipped) as endpoint, pytest.raises(RefusedByPeer, match="compressed"):
        Inquiry(endpoint, "t").view()


def test_an_answer_that_drips_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "ANSWER_TIMEOUT", 0.5)

    def dripping(peer: socket.socket) -> None:
        peer.sendall(HEAD + b"\r\n")
        while True:
            peer.sendall(b" ")
            time.sleep(0.02)

    with answering(dripping) as endpoint, pytest.raises(Unreachable, match="too long"):
        Inquiry(endpoint, "t").view()
