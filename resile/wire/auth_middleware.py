"""Authentication of every request, and limits for connections that are not authenticated.

Our clients prove that they know the token without sending it (``digest.py``). A bearer token is
accepted as well, for tools that support nothing else, such as Prometheus. A job's read token only
allows reading: a request that changes something, and an agent's connection, need the job's token.

Only an authenticated request may take long. All other connections count as unauthenticated: those
without a complete request, those between two requests, and those whose token was wrong. An
unauthenticated connection that has been idle for a while is closed; when there are so many that
agents might find no free descriptor, the longest idle ones are closed at once.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
import time
from collections.abc import Collection, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from resile.wire.auth import Scope, Tokens
from resile.wire.digest import PROOF_PATH, Verifier

log = logging.getLogger("resile.master")

SILENT_TIMEOUT = 10.0
"""Seconds after which a TCP connection without a complete request is closed."""

SWEEP_INTERVAL = 0.5

UNAUTHENTICATED_SHARE = 0.5
"""The part of this process's descriptors that connections without a token may hold."""

OPEN_PATHS = frozenset({"/healthz"})
"""Paths that need no token: that the master is alive says nothing about the job."""

READING = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

LARGEST_REQUEST = 1024 * 1024

UNREAD_BODY_TIMEOUT = 1.0
"""Seconds for which the rest of a refused request's body is read, so that its sender can read the
reason."""

PROOF = "resile.proof"
"""The key under which a request carries the header with which the master proves itself."""

_unheard = logging.getLogger("resile.unheard")
_unheard.disabled = True


class AuthMiddleware:
    """Guards one application. Create the application and its runner here, and run :meth:`sweep`."""

    def __init__(self, token: str) -> None:
        self._tokens = Tokens(token)
        self._verifier = Verifier(token)
        self._served: set[web.RequestHandler] = set()
        self._silent_since: dict[web.RequestHandler, float] = {}

    def application(self) -> web.Application:
        """Return an application whose routes, except the open ones, need the token."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in OPEN_PATHS:
                return _last(await _answer(request, handler))
            if (refusal := self._refusal(request)) is not None:
                return refusal
            if request.path == PROOF_PATH:
                return web.json_response({"ok": True})
            self._served.add(request.protocol)
            try:
                return await _answer(request, handler)
            finally:
                self._served.discard(request.protocol)
                self._silent_since.pop(request.protocol, None)

        app = web.Application(middlewares=[check], client_max_size=LARGEST_REQUEST)
        app.on_response_prepare.append(_prove)
        return app

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a request; None if it is authenticated and allowed."""
        header = request.headers.get("Authorization")
        if header is None:
            return self._challenge()
        if scope := self._tokens.bearer(header):
            return _beyond(scope, request)
        scope = self._verifier.verify(header, method=request.method, uri=request.raw_path)
        if scope is None:
            refusal = self._challenge()
            refusal.force_close()
            return refusal
        if not self._verifier.spend(header):
            return self._challenge(stale=True)
        request[PROOF] = self._verifier.proof(header, scope)
        return _beyond(scope, request)

    def _challenge(self, *, stale: bool = False) -> web.Response:
        headers = {"WWW-Authenticate": self._verifier.challenge(stale=stale)}
        refusal = {"error": "a valid job token is required"}
        return web.json_response(refusal, status=401, headers=headers)

    @staticmethod
    def runner(app: web.Application) -> web.AppRunner:
        """Return a runner of ``app`` with limits. It does not log unauthenticated requests."""
        return web.AppRunner(
            app,
            access_log=None,
            logger=_unheard,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=SILENT_TIMEOUT,
            lingering_time=UNREAD_BODY_TIMEOUT,
        )

    async def sweep(self, runner: web.AppRunner) -> None:
        """Close unauthenticated connections that exceed the limits; runs until cancelled."""
        most = _most_unauthenticated()
        while True:
            await asyncio.sleep(SWEEP_INTERVAL)
            now = time.monotonic()
            connections = runner.server.connections if runner.server else []
            idle = set(connections) - self._served
            self._silent_since = {c: self._silent_since.get(c, now) for c in idle}
            for connection in connections_to_close(self._silent_since, now=now, most=most):
                if connection.transport is not None:
                    connection.transport.abort()


def unguarded_application() -> web.Application:
    """Return an application without a token, for a socket that is protected by other means."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await _answer(request, handler)

    return web.Application(middlewares=[answer], client_max_size=LARGEST_REQUEST)


def connections_to_close(
    silent_since: Mapping[web.RequestHandler, float], *, now: float, most: int
) -> Collection[web.RequestHandler]:
    """Return the connections to close: those silent for too long, and the longest silent of more
    than ``most``."""
    by_age = sorted(silent_since, key=silent_since.__getitem__)
    surplus = by_age[: max(0, len(by_age) - most)]
    late = [c for c in by_age if now - silent_since[c] > SILENT_TIMEOUT]
    return late if len(late) > len(surplus) else surplus


def _beyond(scope: Scope, request: web.Request) -> web.Response | None:
    """Return the refusal of a request that the token's scope does not allow; None if it does.

    A WebSocket begins as a GET, but its agent takes part in the job."""
    reads = request.method in READING and "Upgrade" not in request.headers
    if scope is Scope.WRITE or reads:
        return None
    sentence = (
        f"this token has the scope {Scope.READ.value}; {request.method} {request.path} needs the "
        f"job's token, which has the scope {Scope.WRITE.value}"
    )
    return web.json_response({"error": sentence}, status=403)


async def _prove(request: web.Request, response: web.StreamResponse) -> None:
    """Add the master's own proof to the headers of the answer to a client's."""
    if proof := request.get(PROOF):
        response.headers["Authentication-Info"] = proof


def _last(response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after this answer: an unauthenticated client gets one per connection."""
    response.force_close()
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the handler's answer. An unexpected error is logged in full, but not sent."""
    try:
        return await handler(request)
    except (web.HTTPException, asyncio.CancelledError):
        raise
    except Exception:
        log.exception("a request for %r failed", request.path)
        return web.json_response({"error": "internal error; see the log of the server"}, status=500)


def _most_unauthenticated() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return sys.maxsize
    return int(descriptors * UNAUTHENTICATED_SHARE)
