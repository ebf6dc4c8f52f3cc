"""Any program may listen at a master's address: its response is read within limits."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from resile.wire.auth_middleware import AuthMiddleware
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint
from resile.wire.errors import RefusedByPeer, UnprovenPeer, Unreachable
from resile.wire.http_client import MasterHttpClient, is_master, master_session

TOKEN = "a-token-of-the-tests"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(answer: Answer, *, token: str = TOKEN) -> AsyncIterator[Endpoint]:
    """A server that knows the token, and responds in the given way."""
    door = AuthMiddleware(token)
    app = door.application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = door.runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Endpoint("127.0.0.1", runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def ask(endpoint: Endpoint, *, timeout: float = 10.0, limit: int = 65536) -> object:
    async with master_session() as session:
        client = MasterHttpClient(session, Access(endpoint, TOKEN), timeout=timeout)
        client.limit = limit
        return await client.events()


async def test_an_answer_without_end_is_refused() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    async with answering(endless) as endpoint:
        with pytest.raises(RefusedByPeer, match="longer than 65536"):
            await ask(endpoint)


async def test_a_compressed_answer_is_refused() -> None:
    body = gzip.compress(b" " * 10_000)

    async def zipped(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with answering(zipped) as endpoint:
        with pytest.raises(RefusedByPeer, match="compressed"):
            await ask(endpoint)


async def test_an_answer_that_drips_is_given_up_in_time() -> None:
    async def dripping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    async with answering(dripping) as endpoint:
        with pytest.raises(Unreachable, match="too long"):
            await ask(endpoint, timeout=0.5)


async def test_a_refusal_has_its_sentence() -> None:
    async def refusing(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "not today"}, status=409)

    async with answering(refusing) as endpoint:
        with pytest.raises(RefusedByPeer, match=r"^not today$") as refused:
            await ask(endpoint)
        assert refused.value.final


async def test_an_answer_that_no_master_gives_is_refused() -> None:
    async def other(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    async with answering(other) as endpoint:
        with pytest.raises(RefusedByPeer, match="gave no answer of a Resile master"):
            await ask(endpoint)


async def test_another_jobs_master_is_told_from_no_master() -> None:
    async def unasked(_request: web.Request) -> web.StreamResponse:
        raise AssertionError

    async with answering(unasked, token="another-token-altogether") as endpoint:
        assert await is_master(endpoint)
        with pytest.raises(UnprovenPeer, match="refused the token"):
            await ask(endpoint)
    assert not await is_master(endpoint)
    with pytest.raises(Unreachable, match="Connection refused"):
        await ask(endpoint)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint("127.0.0.1", silent.getsockname()[1])
        assert not await is_master(endpoint, timeout=0.1)
