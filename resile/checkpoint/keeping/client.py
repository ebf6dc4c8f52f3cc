"""A worker's client of the snapshot server in its agent.

Plain blocking requests, a few microseconds each. A forked child opens a connection of its own: it
must not use its parent's. When the agent is dead every request raises :class:`KeeperGone`; memory
that was being filled stays valid.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence

from resile.checkpoint import packets
from resile.checkpoint.keeping.errors import KeeperGone
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.checkpoint.keeping.messages import (
    Answer,
    Request,
    RequestRefused,
    WorkerHello,
    WorkerWelcome,
)
from resile.decoding import MsgpackDecoder

__all__ = ["SNAPSHOTS_VARIABLE", "KeeperClient"]

SNAPSHOTS_VARIABLE = "RESILE_SNAPSHOTS"
"""The server's socket, set by the agent for its workers; ``@`` means the abstract namespace."""


class KeeperClient(SnapshotMemory):
    """A client of the server at ``name``. Raises :class:`KeeperGone` if there is none."""

    def __init__(self, name: str, worker: WorkerHello) -> None:
        super().__init__(worker)
        self._name = name
        self._line: socket.socket | None = None
        self._owner = 0
        self._asking = threading.Lock()
        self._decoder = MsgpackDecoder[Answer](Answer)
        with self._asking:
            self._connected()

    @classmethod
    def from_environment(
        cls, worker: WorkerHello, environment: Mapping[str, str] = os.environ
    ) -> KeeperClient | None:
        """Connect to the agent's server, if the environment names one."""
        name = environment.get(SNAPSHOTS_VARIABLE)
        return cls(name, worker) if name else None

    def close(self) -> None:
        """Disconnect; the server keeps its snapshots."""
        self._close_pairs()
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(self, request: Request) -> tuple[Answer, Sequence[int]]:
        if self._owner != os.getpid():
            # A forked child: a lock held by its parent would never be released here.
            self._asking = threading.Lock()
        with self._asking:
            return self._exchange(self._connected(), request)

    def _connected(self) -> socket.socket:
        if self._line is not None and self._owner == os.getpid():
            return self._line
        if self._line is not None:
            self._line.close()
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            line.connect("\0" + self._name[1:] if self._name.startswith("@") else self._name)
        except OSError as error:
            line.close()
            self._line = None
            raise KeeperGone(
                f"the agent's snapshot server does not answer: {error.strerror}"
            ) from None
        self._line, self._owner = line, os.getpid()
        answer, _ = self._exchange(line, self.worker)
        if isinstance(answer, RequestRefused):
            raise KeeperGone(f"the agent's snapshot server refuses this worker: {answer.reason}")
        assert isinstance(answer, WorkerWelcome)
        self.address = answer.address
        return line

    def _exchange(self, line: socket.socket, request: Request) -> tuple[Answer, Sequence[int]]:
        why = "connection closed"
        try:
            packets.send(line, request)
            received = packets.receive(line, self._decoder)
            if received is not None:
                return received
        except OSError as error:
            why = error.strerror or str(error)
        line.close()
        self._line = None
        raise KeeperGone(f"lost the agent's snapshot server: {why}")
