"""Who gets in: the job's token on every request, and no room for connections that say nothing."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web
from aiohttp.typedefs import Handler

from resile.wire.auth import authorized

SILENT_TIMEOUT = 10.0
"""A TCP connection without a complete request for so long is closed."""

OPEN_PATHS = frozenset({"/healthz"})
"""What may be asked without a token: that somebody is alive says nothing about the job."""

LARGEST_REQUEST = 1024 * 1024


class Doorkeeper:
    """Guards one application. Make the application here, and run :meth:`sweep` beside it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._spoke: set[web.RequestHandler] = set()
        self._first_seen: dict[web.RequestHandler, float] = {}

    def application(self) -> web.Application:
        """An application whose every route but the open ones needs the token."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._spoke.add(request.protocol)
            if request.path not in OPEN_PATHS and not authorized(
                request.headers.get("Authorization"), self._token
            ):
                return web.json_response({"error": "a valid job token is required"}, status=401)
            return await handler(request)

        return web.Application(middlewares=[check], client_max_size=LARGEST_REQUEST)

    async def sweep(self, runner: web.AppRunner) -> None:
        """Close connections that never complete a request; runs until cancelled."""
        while True:
            await asyncio.sleep(SILENT_TIMEOUT / 4)
            now = time.monotonic()
            open_now = set(runner.server.connections) if runner.server else set()
            self._spoke &= open_now
            for connection in open_now - self._spoke:
                self._first_seen.setdefault(connection, now)
            self._first_seen = {
                connection: since
                for connection, since in self._first_seen.items()
                if connection in open_now and connection not in self._spoke
            }
            for connection, since in self._first_seen.items():
                if now - since > SILENT_TIMEOUT and connection.transport is not None:
                    connection.transport.abort()
