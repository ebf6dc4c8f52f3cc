"""The operator's HTTP server: /metrics, /healthz, /readyz.

/healthz answers while the event loop runs; /readyz when all caches are synced, whether this
operator is the leader or stands by. A kubelet restarts what is not healthy, and a rollout waits for
what is not ready. It listens on loopback unless another address is given, because there is no
authentication.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["Check", "serve_health"]

Check = Callable[[], bool]
Text = Callable[[], bytes]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class _Sources:
    metrics: Text
    ready: Mapping[str, Check]


SOURCES = web.AppKey("sources", _Sources)


@asynccontextmanager
async def serve_health(
    metrics: Text, ready: Mapping[str, Check], *, host: str | None = LOOPBACK, port: int = 0
) -> AsyncIterator[int]:
    """Serve while the block runs. Yields the port: the given one, or a free one for 0.

    ``host``: None for every address. ``ready``: the readiness checks, by the name that is shown
    while one fails.
    """
    app = web.Application()
    app[SOURCES] = _Sources(metrics, ready)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", _ready)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _metrics(request: web.Request) -> web.Response:
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return web.Response(body=request.app[SOURCES].metrics(), headers=headers)


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _ready(request: web.Request) -> web.Response:
    missing = [name for name, check in request.app[SOURCES].ready.items() if not check()]
    if missing:
        return web.Response(status=503, text=f"not ready: {', '.join(missing)}\n")
    return web.Response(text="ok\n")
