"""A listening TLS port with a limit of unfinished handshakes.

asyncio sees a TLS connection only after its handshake, for which it allows a minute, and in which
silent connections can use up all file descriptors of the process. Here sockets are counted from
when they are accepted: a handshake has a few seconds, and the number in progress is limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
import time

from aiohttp import web

from resile.system.connection_quota import PendingConnection, connection_to_evict

__all__ = ["HANDSHAKE_TIMEOUT", "TlsSite", "most_handshakes"]

HANDSHAKE_TIMEOUT = 5.0
"""Seconds: two round trips and a signature, on a busy machine."""

HANDSHAKES_SHARE = 0.125
"""The part of this process's descriptors that unfinished handshakes may use."""

MOST_HANDSHAKES = 1024
"""The limit where the process may open very many descriptors."""


class TlsSite(web.TCPSite):
    """An aiohttp site that serves a runner's application over TLS."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext,
        backlog: int = 128,
    ) -> None:
        super().__init__(runner, host, port, ssl_context=tls, backlog=backlog)
        self._tls = tls
        self._most = most_handshakes()
        self._unfinished: dict[asyncio.Transport, PendingConnection] = {}
        self._handshakes: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; raises OSError."""
        await web.BaseSite.start(self)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Accepted(self), self._host, self._port, backlog=self._backlog
        )

    def accepted(self, transport: asyncio.Transport) -> None:
        """Start the handshake of an accepted connection."""
        peer = transport.get_extra_info("peername") or ("",)
        if len(self._unfinished) >= self._most:
            oldest = connection_to_evict(self._unfinished)
            del self._unfinished[oldest]
            oldest.abort()
        self._unfinished[transport] = PendingConnection(str(peer[0]), time.monotonic())
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        server = self._runner.server
        if server is None:
            transport.abort()
            return
        handler = server()
        secured: asyncio.Transport | None = None
        with contextlib.suppress(OSError, ssl.SSLError):
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                handler,
                self._tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            )
        self._unfinished.pop(transport, None)
        if secured is None:
            transport.abort()
        else:
            handler.connection_made(secured)


class _Accepted(asyncio.Protocol):
    """A connection before its handshake."""

    def __init__(self, site: TlsSite) -> None:
        self._site = site

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until TLS reads
        self._site.accepted(transport)


def most_handshakes() -> int:
    """Return how many handshakes may be in progress at once in this process."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_HANDSHAKES
    return max(8, min(MOST_HANDSHAKES, int(descriptors * HANDSHAKES_SHARE)))
