"""Steps reported by workers: datagrams on a Unix socket, read by the agent, never waited for.

A worker that trains sends a small JSON datagram and goes on; if nobody reads, it is dropped. What
the agent saw last travels to the master with the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket

import msgspec

from resile.decoding import DecodeError, JsonDecoder
from resile.wire.messages import Progress


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One datagram."""

    round: int
    step: int
    loss: float | None = None


_decoder = JsonDecoder[Report](Report)


class ProgressSocket:
    """Receives reports; ``latest`` is what the current round has come to."""

    def __init__(self) -> None:
        self.name = f"@resile-{secrets.token_hex(8)}"
        """For RESILE_PROGRESS_SOCKET. ``@`` stands for Linux' abstract namespace: no file is left
        behind, however this process ends."""
        self.latest: Progress | None = None
        self._round = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self.name[1:])
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def new_round(self, number: int) -> None:
        """Reports of older rounds no longer count."""
        self._round = number

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take(self._socket.recv(4096))

    def _take(self, data: bytes) -> None:
        try:
            report = _decoder.decode(data)
        except DecodeError:
            return
        if report.round == self._round:
            self.latest = Progress(step=report.step, loss=report.loss)

    def close(self) -> None:
        """Stop listening."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
