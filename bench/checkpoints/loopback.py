"""The time of a transfer through a TCP connection on this machine, with one sender."""

import multiprocessing
import socket
import time

from bench.launchers import HOST

_CHUNK = 1 << 20
_WITHIN = 60.0


def transfer_seconds(size: int) -> float:
    """Seconds from the request to the last byte received, into memory that was touched before."""
    target = memoryview(bytearray(b"\1") * size)
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(_WITHIN)
        context = multiprocessing.get_context("spawn")
        sender = context.Process(target=_send, args=(listener.getsockname()[1], size))
        sender.start()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_WITHIN)
            begun = time.monotonic()
            connection.sendall(b"!")
            received = 0
            while received < size:
                received += connection.recv_into(target[received:])
            took = time.monotonic() - begun
        sender.join()
    return took


def _send(port: int, size: int) -> None:
    data = memoryview(bytearray(b"\1") * size)
    with socket.create_connection((HOST, port), timeout=_WITHIN) as connection:
        connection.recv(1)
        for begin in range(0, size, _CHUNK):
            connection.sendall(data[begin : begin + _CHUNK])
