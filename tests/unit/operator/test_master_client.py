"""A misbehaving master cannot harm the operator."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from resile.operator.build.master import JobSecret
from resile.operator.master_client import EVENTS_AT_ONCE, MasterClient
from resile.wire.auth_middleware import AuthMiddleware
from resile.wire.bounds import answer_limit
from resile.wire.endpoint import Endpoint
from resile.wire.http_client import master_session
from resile.wire.views import EventView

MAIN: dict[str, Any] = {
    "phase": "running",
    "round": 3,
    "reason": "",
    "minNodes": 1,
    "maxNodes": 1,
    "worldSize": 1,
    "restarts": 0,
    "maxRestarts": 3,
    "step": 7,
    "nodes": {},
}
VIEW = {"": MAIN}


class Hostile:
    """A master whose responses the test sets."""

    def __init__(self) -> None:
        self.status: Callable[[], web.StreamResponse] = lambda: web.json_response(VIEW)
        self.events: list[dict[str, Any]] = []
        self.asked = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if request.path == "/v1/events":
            return web.json_response(self.events)
        return self.status()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Endpoint]:
        app = AuthMiddleware("t").application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield Endpoint("127.0.0.1", runner.addresses[0][1])
        finally:
            await runner.cleanup()


@asynccontextmanager
async def line_to(master: Hostile, told: list[EventView]) -> AsyncIterator[MasterClient]:
    async with master.serving() as endpoint, master_session() as session:
        line = MasterClient(
            session, JobSecret("t"), refresh=10.0, news=told.extend, changed=lambda: None
        )
        line.most_nodes = 1
        line.set_endpoint(endpoint)
        try:
            yield line
        finally:
            await line.close()


async def until(holds: Callable[[], bool]) -> None:
    async def look() -> None:
        while not holds():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), 30)


def padded(size: int) -> bytes:
    return json.dumps(VIEW).encode() + b" " * size


def answers() -> Iterator[Any]:
    bomb = gzip.compress(padded(64 * 1024**2))
    zipped = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    long = padded(answer_limit(1))
    deep = b"[" * 100_000
    away = {"Location": "http://127.0.0.1:1/v1/status"}
    yield pytest.param(lambda: web.Response(body=bomb, headers=zipped), id="compressed")
    yield pytest.param(lambda: web.Response(body=long), id="too long")
    yield pytest.param(lambda: web.Response(body=deep), id="nested")
    yield pytest.param(lambda: web.Response(body=b"\xff"), id="not text")
    yield pytest.param(lambda: web.Response(status=302, headers=away), id="elsewhere")
    for field, value in (("round", 2**70), ("restarts", -1), ("worldSize", 1e308)):
        view = json.dumps({"": {**MAIN, field: value}})
        yield pytest.param(lambda view=view: web.Response(text=view), id=f"{field} {value:g}")


@pytest.mark.parametrize("answer", list(answers()))
async def test_an_answer_that_no_master_gives_is_none(
    answer: Callable[[], web.StreamResponse],
) -> None:
    master = Hostile()
    async with line_to(master, []) as line:
        await line.look(10.0)
        assert line.latest is not None, "an honest one is heard"
        line.latest = None
        master.status = answer
        await line.look(10.0)
        assert line.latest is None


async def test_an_answer_without_end_is_left_in_the_middle() -> None:
    sent = 0

    async def endless(_request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(_request)
        if _request.path not in ("/v1/trainings", "/v1/events"):
            return response  # it proves its identity like any master
        while True:
            await response.write(b" " * 65536)
            sent += 65536

    master = Hostile()
    master.answer = endless  # type: ignore[method-assign]
    async with line_to(master, []) as line:
        began = time.monotonic()
        await line.look(10.0)
        assert time.monotonic() - began < 5.0
    assert sent < answer_limit(1) + 32 * 1024**2, "what was on its way when it was left"


async def test_a_flood_of_events_is_cut_and_a_master_that_never_waits_is_slowed_down() -> None:
    master = Hostile()
    now = time.time()
    master.events = [
        {"seq": n, "time": now + n / 1e6, "kind": "Noise", "text": "x"} for n in range(1, 3001)
    ]
    told: list[EventView] = []
    async with line_to(master, told):
        await until(lambda: bool(told))
        assert len(told) == EVENTS_AT_ONCE
        assert told[-1].seq == 3000, "the newest are told"
        await until(lambda: master.asked > 60)
        before = master.asked
        await asyncio.sleep(0.5)
        assert master.asked - before < 60, "two questions to an answer, five answers a second"
