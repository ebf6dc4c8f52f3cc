"""The master's end of the wire: many connections, each refused or served on its own.

A connection that sends garbage, too much, or the same frame twice is told so and closed. Each peer
has an outbox and a task that empties it, so one that does not read delays nobody else.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import aiohttp
from aiohttp import web

from resile.wire.codec import MAX_FRAME, decode_from_agent, encode_from_master
from resile.wire.errors import BadFrame
from resile.wire.messages import AgentFrame, FromAgent, FromMaster, Hello, Refused

HELLO_TIMEOUT = 5.0
"""An agent greets in its first millisecond; whoever does not is no agent."""

OUTBOX_LIMIT = 256
"""A peer that lets so many messages lie is not reading; its lease would end it anyway."""


class Peer:
    """One greeted or greeting connection, as the master sees it."""

    def __init__(self, socket: web.WebSocketResponse, remote: str) -> None:
        self.remote = remote
        self._socket = socket
        self._outbox: asyncio.Queue[FromMaster | None] = asyncio.Queue(OUTBOX_LIMIT)
        self._seq = 0

    def send(self, body: FromMaster) -> None:
        """Put a message into the outbox; never waits."""
        try:
            self._outbox.put_nowait(body)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        """End the connection once everything sent before is out."""
        try:
            self._outbox.put_nowait(None)
        except asyncio.QueueFull:
            while not self._outbox.empty():
                self._outbox.get_nowait()
            self._outbox.put_nowait(None)

    async def write(self) -> None:
        """Empty the outbox until :meth:`close` or the loss of the connection."""
        while (body := await self._outbox.get()) is not None:
            self._seq += 1
            try:
                await self._socket.send_bytes(encode_from_master(self._seq, body))
            except (ConnectionError, aiohttp.ClientError, RuntimeError):
                return
        await self._socket.close()


class PeerHandler(Protocol):
    """What the master does with its peers. None of these may block."""

    def greeted(self, peer: Peer, hello: Hello) -> None:
        """The first message of a connection."""

    def received(self, peer: Peer, message: FromAgent) -> None:
        """Any later one."""

    def closed(self, peer: Peer) -> None:
        """A greeted connection is gone."""


class AgentEndpoint:
    """The WebSocket route: turns connections into peers and hands them to a handler."""

    def __init__(self, handler: PeerHandler) -> None:
        self._handler = handler

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One connection, from upgrade to loss."""
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME, compress=False, timeout=1.0)
        await socket.prepare(request)
        peer = Peer(socket, request.remote or "?")
        writer = asyncio.create_task(peer.write())
        greeted = False
        try:
            frame = await _first_frame(socket)
            self._handler.greeted(peer, _hello_of(frame))
            greeted = True
            await self._listen(socket, peer, frame.seq)
        except BadFrame as error:
            peer.send(Refused(reason=str(error), final=not greeted))
        finally:
            if greeted:
                self._handler.closed(peer)
            peer.close()
            await _finish(writer, socket)
        return socket

    async def _listen(self, socket: web.WebSocketResponse, peer: Peer, last: int) -> None:
        while (message := await socket.receive()).type is aiohttp.WSMsgType.BINARY:
            frame = decode_from_agent(message.data)
            if frame.seq <= last:
                raise BadFrame(f"frame {frame.seq} was sent before; a replay is not accepted")
            last = frame.seq
            self._handler.received(peer, frame.body)
        if message.type is aiohttp.WSMsgType.TEXT:
            raise BadFrame("text frames are not part of this protocol")


async def _first_frame(socket: web.WebSocketResponse) -> AgentFrame:
    try:
        message = await asyncio.wait_for(socket.receive(), HELLO_TIMEOUT)
    except asyncio.TimeoutError:
        raise BadFrame(f"no Hello within {HELLO_TIMEOUT:g} s") from None
    if message.type is not aiohttp.WSMsgType.BINARY:
        raise BadFrame("the first frame must be a Hello")
    return decode_from_agent(message.data)


def _hello_of(frame: AgentFrame) -> Hello:
    if not isinstance(frame.body, Hello):
        raise BadFrame(f"the first frame must be a Hello, not {type(frame.body).__name__}")
    return frame.body


async def _finish(writer: asyncio.Task[None], socket: web.WebSocketResponse) -> None:
    """Let last words out, but not for long: the peer may not be reading."""
    await asyncio.wait([writer], timeout=1.0)
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    await socket.close()
