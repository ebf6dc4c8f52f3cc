"""The nursery's end of the connection to its agent, with blocking calls."""

import contextlib
import os
import socket
from collections import deque

from .frames import RECEIVE_BYTES, RECEIVE_DESCRIPTORS, FrameReader, pack
from .messages import Message


class LineEnded(Exception):
    """Raised when the agent has closed the connection, or is dead."""


class Line:
    """Messages over the inherited socket.

    Sending blocks while the agent does not read, which happens only if it is stopped. Sending to a
    dead agent is not an error: the nursery acts on the end of the stream, which `receive` reports.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._socket.set_inheritable(False)
        self._reader = FrameReader()
        self._received: deque[tuple[Message, list[int]]] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(pack(message))

    def receive(self) -> tuple[Message, list[int]]:
        """Wait for the next message; return it with its descriptors."""
        while not self._received:
            self._read()
        return self._received.popleft()

    def has_received(self) -> bool:
        """Whether `receive` would return at once."""
        return bool(self._received)

    def close(self) -> None:
        """Close the socket and all descriptors that were received and not returned."""
        self._socket.close()
        for _, descriptors in self._received:
            for descriptor in descriptors:
                os.close(descriptor)
        self._reader.close()

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._socket, RECEIVE_BYTES, RECEIVE_DESCRIPTORS
            )
        except ConnectionResetError:
            raise LineEnded from None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not data:
            raise LineEnded
        self._reader.feed(data, descriptors)
        self._received.extend(self._reader.messages())
