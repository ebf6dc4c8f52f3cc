"""The master's side of workers' connections: the requests of each are answered in order.

The next request of a worker is read when the last one is answered, so a worker that asks too fast
slows down only itself; its further requests wait in the network's buffers, and are bounded by
them. Size and rate are limited as for agents' connections, with larger numbers.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import aiohttp
from aiohttp import web

from resile.shards.protocol import (
    MAX_SHARDS_FRAME,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_SECOND,
    SHARDS_PROTOCOL,
    FromWorker,
    Introduce,
    NotAccepted,
    ShardAnswer,
    ShardRequest,
    ToWorker,
    decode_request,
    encode_shard_frame,
)
from resile.wire.errors import BadFrame
from resile.wire.server import HELLO_TIMEOUT, REFUSAL_TIMEOUT, FrameReader, RateLimiter


class ShardHandler(Protocol):
    """The master's handling of workers' requests."""

    def arrived(self, worker: Introduce) -> object:
        """A worker introduced itself; returns an object for its connection."""

    async def answer(self, connection: object, request: FromWorker) -> ToWorker:
        """Return the answer, once its records are written."""

    def departed(self, connection: object) -> None:
        """The connection is lost."""


class ShardEndpoint:
    """The WebSocket route for workers."""

    def __init__(self, handler: ShardHandler) -> None:
        self._handler = handler

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection, from upgrade to loss."""
        socket = web.WebSocketResponse(
            max_msg_size=2 * MAX_SHARDS_FRAME,
            compress=False,
            timeout=REFUSAL_TIMEOUT,
            autoping=False,
        )
        await socket.prepare(request)
        rate = RateLimiter(time.monotonic(), per_second=REQUESTS_PER_SECOND, burst=REQUESTS_AT_ONCE)
        reader = FrameReader(socket, rate=rate, largest=MAX_SHARDS_FRAME)
        try:
            connection = self._handler.arrived(await _introduction(reader))
            try:
                await self._converse(socket, reader, connection)
            finally:
                self._handler.departed(connection)
        except BadFrame as error:
            await _say(socket, ShardAnswer(0, NotAccepted(reason=_line(error))))
        except (ConnectionError, aiohttp.ClientError):
            return socket
        await socket.close()
        return socket

    async def _converse(
        self, socket: web.WebSocketResponse, reader: FrameReader, connection: object
    ) -> None:
        while (data := await reader.next()) is not None:
            asked = decode_request(data)
            if isinstance(asked.body, Introduce):
                raise BadFrame("a worker introduces itself once a connection")
            answer = await self._handler.answer(connection, asked.body)
            await socket.send_bytes(encode_shard_frame(ShardAnswer(asked.id, answer)))


async def _introduction(reader: FrameReader) -> Introduce:
    try:
        data = await asyncio.wait_for(reader.next(), HELLO_TIMEOUT)
    except asyncio.TimeoutError:
        raise BadFrame(f"no introduction within {HELLO_TIMEOUT:g} s") from None
    if data is None:
        raise BadFrame("the connection ended before an introduction")
    request: ShardRequest = decode_request(data)
    if not isinstance(request.body, Introduce):
        raise BadFrame(f"the first frame must introduce, not {type(request.body).__name__}")
    if request.body.protocol != SHARDS_PROTOCOL:
        raise BadFrame(
            f"this master speaks version {SHARDS_PROTOCOL} about shards and the worker version "
            f"{request.body.protocol}: install the same version of resile on all nodes"
        )
    return request.body


async def _say(socket: web.WebSocketResponse, answer: ShardAnswer) -> None:
    try:
        await asyncio.wait_for(socket.send_bytes(encode_shard_frame(answer)), REFUSAL_TIMEOUT)
    except (ConnectionError, aiohttp.ClientError, asyncio.TimeoutError):
        return


def _line(error: Exception) -> str:
    """Return an error as one line; it may quote what was sent."""
    return "".join(c if c.isprintable() else " " for c in str(error))[:1000]
