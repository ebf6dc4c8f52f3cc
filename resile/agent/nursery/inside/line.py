"""The nursery's end of the line to its agent: blocking, and forgiving once the agent is gone."""

import contextlib
import os
import socket
from collections import deque

from .frames import RECEIVE_BYTES, RECEIVE_DESCRIPTORS, FrameReader, pack
from .messages import Message


class LineEnded(Exception):
    """The agent closed the line, or is dead."""


class Line:
    """Messages over the inherited socket.

    Sending blocks while the agent does not read. Only a stopped agent does not, and then there is
    nobody to serve. Sending to a dead agent is no error: the end of the stream, which `receive`
    reports, is what the nursery acts on.
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
        """Return the next message and its descriptors, waiting for it if need be."""
        while not self._received:
            self._read()
        return self._received.popleft()

    def has_received(self) -> bool:
        """Whether `receive` would return at once."""
        return bool(self._received)

    def close(self) -> None:
        """Close the socket and every descriptor that was received and not handed out."""
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
