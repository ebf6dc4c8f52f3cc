"""The protocol between the agent and a nursery process: messages, frames, and blocking calls.

Messages are named tuples: immutable, typed and cheap to import. A frame is a four-byte length and
that many bytes of JSON: a list of the message's name and its fields in order. Strings from the
operating system may contain surrogate escapes; JSON's ASCII form preserves them.

Descriptors are attached to the first bytes of their frame; the kernel may deliver them with any
part of the stream, but never out of order, so the receiver queues them and each message takes its
own from the front. Both ends are ours and started together: a frame that cannot be decoded is a bug
and raises.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class PreloadRequest(NamedTuple):
    """The first message to a nursery: the modules to import, and how.

    Attributes:
        environ: the environment in which to import.
        preload: modules to import, in this order. `None`: import nothing and fork no warm worker.
        libraries_only: skip modules that do not belong to the interpreter or to an installed
            package (in `trusted` roots or a site-packages folder).
        trusted: further folders whose modules count as installed.
        awaited: packages that only the script may import, since they may depend on a variable that
            it sets before their import.
        first_path: what the interpreter will put at the front of `sys.path` in a worker, if
            anything: modules found there are the user's own.
        report_fd: a pipe on which workers report what they import, or -1.
        share: the share of a core that importing may use, 1.0 for all of it.
        grace: seconds that processes left in the group of a dead worker have to exit.
    """

    environ: dict[str, str]
    preload: list[str] | None
    libraries_only: bool
    trusted: list[str]
    awaited: list[str]
    first_path: str | None
    report_fd: int
    share: float
    grace: float


class Spawn(NamedTuple):
    """Start a worker. Sent with three descriptors: its stdin, stdout and stderr.

    A worker that cannot be warm runs `argv` instead; `warm` says whether warm is wanted at all,
    `hooked` whether a cold one is a Python that runs our hook.
    """

    request: int
    warm: bool
    argv: list[str]
    environ: dict[str, str]
    cwd: str
    hooked: bool


class OpenStore(NamedTuple):
    """Start the host of one round's store, listening on `port` of `host`; 0 for a free one."""

    request: int
    host: str
    port: int = 0


class HostStore(NamedTuple):
    """From a nursery to its child: serve a store. Sent with its listening socket."""

    host: str
    port: int


class SignalWorker(NamedTuple):
    """Send a signal to a worker and its whole process group, or to a store host."""

    pid: int
    number: int


class Echo(NamedTuple):
    """The output of the imports: every warm worker prints it again, as a fresh one would."""

    stdout: str
    stderr: str


class Importing(NamedTuple):
    """The nursery is about to import this module."""

    name: str


class PreloadResult(NamedTuple):
    """The nursery has imported what it could.

    `unfit` is empty, or says why no worker may be forked from this process; `culprits` are then
    the modules that must not be preloaded, each with what it does, as far as that is known, and
    `awaiting` those that must not be for as long as the package that they import is awaited.
    """

    loaded: list[str]
    passed_over: list[str]
    has_torch: bool
    unfit: str
    culprits: dict[str, str]
    awaiting: dict[str, str]


class Spawned(NamedTuple):
    """A worker was started. `reason` says why it is cold where warm was wanted."""

    request: int
    pid: int
    warm: bool
    reason: str


class StoreOpened(NamedTuple):
    """A store host was started and its port accepts connections."""

    request: int
    pid: int
    port: int


class RequestFailed(NamedTuple):
    """A request could not be carried out; nothing was started."""

    request: int
    reason: str


class Exited(NamedTuple):
    """A worker or a store host exited. Negative: killed by that signal."""

    pid: int
    returncode: int


Message = (
    PreloadRequest
    | Spawn
    | OpenStore
    | HostStore
    | SignalWorker
    | Echo
    | Importing
    | PreloadResult
    | Spawned
    | StoreOpened
    | RequestFailed
    | Exited
)

DESCRIPTORS: dict[type[Message], int] = {Spawn: 3, HostStore: 1}
"""The number of descriptors that are sent with a message."""


_LENGTH = struct.Struct("!I")

RECEIVE_BYTES = 1 << 16
RECEIVE_DESCRIPTORS = 64

_TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        PreloadRequest,
        Spawn,
        OpenStore,
        HostStore,
        SignalWorker,
        Echo,
        Importing,
        PreloadResult,
        Spawned,
        StoreOpened,
        RequestFailed,
        Exited,
    )
}


def pack(message: Message) -> bytes:
    """Return the frame of a message."""
    body = json.dumps([type(message).__name__, *message]).encode("ascii")
    return _LENGTH.pack(len(body)) + body


class MessageReader:
    """Turns received bytes and descriptors back into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def feed(self, data: bytes, descriptors: Iterable[int] = ()) -> None:
        self._bytes += data
        self._descriptors.extend(descriptors)

    def messages(self) -> Iterator[tuple[Message, list[int]]]:
        """Yield every complete message with its descriptors."""
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            name, *fields = json.loads(bytes(self._bytes[_LENGTH.size : end]))
            del self._bytes[:end]
            kind = _TYPES[name]
            count = DESCRIPTORS.get(kind, 0)
            yield kind(*fields), [self._descriptors.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close the descriptors of an incomplete message."""
        for descriptor in self._descriptors:
            os.close(descriptor)


class ChannelEnded(Exception):
    """Raised when the agent has closed the connection, or is dead."""


class BlockingChannel:
    """Messages over the inherited socket.

    Sending blocks while the agent does not read, which happens only if it is stopped. Sending to a
    dead agent is not an error: the nursery acts on the end of the stream, which `receive` reports.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._socket.set_inheritable(False)
        self._reader = MessageReader()
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
            raise ChannelEnded from None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not data:
            raise ChannelEnded
        self._reader.feed(data, descriptors)
        self._received.extend(self._reader.messages())
