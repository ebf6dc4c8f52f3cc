"""The agent's end of the connection to a nursery process, on the event loop."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence

from .inside.protocol import RECEIVE_BYTES, Message, MessageReader, pack


class Channel:
    """Sends without blocking; calls back for each message, and once at the end."""

    def __init__(
        self,
        line: socket.socket,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = line
        self._socket.setblocking(False)
        self._on_message = on_message
        self._on_end = on_end
        self._reader = MessageReader()
        self._outgoing: deque[tuple[bytes, Sequence[int]]] = deque()
        self._loop.add_reader(self._socket, self._receive)

    @property
    def has_ended(self) -> bool:
        return self._socket.fileno() < 0

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Queue a message. The descriptors must stay open until it was answered.

        After the end messages are dropped.
        """
        if self.has_ended:
            return
        self._outgoing.append((pack(message), descriptors))
        if len(self._outgoing) == 1:
            self._flush()

    def finish(self) -> None:
        """Close the sending side; the nursery then kills its children and exits."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            # It is gone already; the end of the stream will be read in its turn.
            return

    def close(self) -> None:
        """Close the connection, if the other side has not done so."""
        if self.has_ended:
            return
        self._stop_writing()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._on_end()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                data, descriptors = self._outgoing.popleft()
                sent = socket.send_fds(self._socket, [data], list(descriptors))
                if sent < len(data):
                    self._outgoing.appendleft((data[sent:], ()))
        except BlockingIOError:
            self._outgoing.appendleft((data, descriptors))
            self._loop.add_writer(self._socket, self._flush)
        except OSError:
            self._stop_writing()
        else:
            self._loop.remove_writer(self._socket)

    def _stop_writing(self) -> None:
        self._outgoing.clear()
        self._loop.remove_writer(self._socket)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.close()
            return
        self._reader.feed(data)
        for message, _ in self._reader.messages():
            self._on_message(message)
