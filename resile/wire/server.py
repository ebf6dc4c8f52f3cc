"""The master's side of agents' connections.

A connection that sends garbage, too much, too fast, or the same frame twice gets an error and is
closed. Each peer has an outbox and a task that empties it, so one that does not read delays no
other; and because such a peer does not read the error either, its connection is aborted if it does
not close within a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Protocol

import aiohttp
from aiohttp import web

from resile.wire.codec import MAX_FRAME, decode_from_agent, encode_from_master, spoken_protocol
from resile.wire.errors import BadFrame
from resile.wire.messages import PROTOCOL, AgentFrame, FromAgent, FromMaster, Hello, Refused

MESSAGES_PER_SECOND = 200.0
"""An agent sends one to ten messages a second."""

BURST = 1000
"""Messages that may come at once: all that a valid peer sent while the master was too busy to read;
a master handles as many in ten milliseconds."""


class RateLimiter:
    """Counts the messages of one peer. ``now`` is any monotonic clock."""

    def __init__(
        self, now: float, *, per_second: float = MESSAGES_PER_SECOND, burst: int = BURST
    ) -> None:
        self.per_second = per_second
        self._burst = float(burst)
        self._left = self._burst
        self._counted_at = now

    def allows(self, now: float) -> bool:
        """Count one message; False when the peer exceeds its rate."""
        refill = (now - self._counted_at) * self.per_second
        self._left = min(self._burst, self._left + refill) - 1
        self._counted_at = now
        return self._left >= 0


HELLO_TIMEOUT = 5.0
"""Seconds. An agent sends its Hello in the first millisecond."""

OUTBOX_LIMIT = 256
"""Messages. A peer with more unread ones does not read; its lease would expire anyway."""

READ_LIMIT = 4 * MAX_FRAME
"""Bytes. A frame that is too large is read up to here, so that its sender gets an error; beyond
this the connection is closed without one."""

REFUSAL_TIMEOUT = 1.0
"""Seconds that a refused peer may take to read why."""


class Peer:
    """A connection of an agent, as the master sees it."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        remote: str,
        *,
        transport: asyncio.Transport | None = None,
    ) -> None:
        self.remote = remote
        self._socket = socket
        self._transport = transport
        self._outbox: asyncio.Queue[FromMaster | None] = asyncio.Queue(OUTBOX_LIMIT)
        self._seq = 0
        self._cut: asyncio.TimerHandle | None = None

    def send(self, body: FromMaster) -> None:
        """Put a message into the outbox; never waits."""
        try:
            self._outbox.put_nowait(body)
        except asyncio.QueueFull:
            self.cut()

    def close(self) -> None:
        """Close the connection once everything is sent, or after a moment."""
        if self._cut is not None:
            return
        self._cut = asyncio.get_running_loop().call_later(REFUSAL_TIMEOUT, self.cut)
        try:
            self._outbox.put_nowait(None)
        except asyncio.QueueFull:
            self.cut()

    def cut(self) -> None:
        """Abort the connection, whatever the peer has not read."""
        if self._transport is not None:
            self._transport.abort()

    def gone(self) -> None:
        """The connection has ended."""
        if self._cut is not None:
            self._cut.cancel()

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
    """The master's handling of peers. No method may block."""

    def greeted(self, peer: Peer, hello: Hello) -> None:
        """The first message of a connection."""

    def received(self, peer: Peer, message: FromAgent) -> None:
        """Any later message."""

    def closed(self, peer: Peer) -> None:
        """A greeted connection is lost."""


class AgentEndpoint:
    """The WebSocket route: turns connections into peers and passes them to a handler."""

    def __init__(self, handler: PeerHandler) -> None:
        self._handler = handler

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection, from upgrade to loss."""
        socket = web.WebSocketResponse(
            max_msg_size=READ_LIMIT, compress=False, timeout=REFUSAL_TIMEOUT, autoping=False
        )
        await socket.prepare(request)
        transport = request.transport
        peer = Peer(socket, request.remote or "?", transport=transport)
        writer = asyncio.create_task(peer.write())
        reader = FrameReader(socket)
        greeted = False
        try:
            frame = await _greeting(reader)
            self._handler.greeted(peer, _hello_of(frame))
            greeted = True
            await self._listen(reader, peer, frame.seq)
        except BadFrame as error:
            peer.send(Refused(reason=str(error), final=not greeted))
        finally:
            if greeted:
                self._handler.closed(peer)
            peer.close()
            await _finish(writer, peer)
        return socket

    async def _listen(self, reader: FrameReader, peer: Peer, last: int) -> None:
        while (data := await reader.next()) is not None:
            frame = decode_from_agent(data)
            if frame.seq <= last:
                raise BadFrame(f"frame {frame.seq} was sent before; a replay is not accepted")
            last = frame.seq
            self._handler.received(peer, frame.body)


class FrameReader:
    """Reads the frames of a peer, with limits of size, kind and rate."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        *,
        rate: RateLimiter | None = None,
        largest: int = MAX_FRAME,
    ) -> None:
        self._socket = socket
        self._rate = rate or RateLimiter(time.monotonic())
        self._largest = largest

    async def next(self) -> bytes | None:
        """Return the next binary frame; None when the connection has ended."""
        while True:
            message = await self._socket.receive()
            if not self._rate.allows(time.monotonic()):
                limit = f"{self._rate.per_second:g} messages a second"
                raise BadFrame(f"more than {limit} are not accepted")
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    return _small_enough(message.data, self._largest)
                case aiohttp.WSMsgType.PING:
                    await self._answer(message.data)
                case aiohttp.WSMsgType.PONG:
                    continue
                case aiohttp.WSMsgType.TEXT:
                    raise BadFrame("text frames are not part of this protocol")
                case _:
                    return None

    async def _answer(self, ping: bytes) -> None:
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await self._socket.pong(ping)


def _small_enough(data: bytes, largest: int) -> bytes:
    if len(data) > largest:
        raise BadFrame(f"a message of {len(data)} bytes is over the limit of {largest}")
    return data


async def _greeting(reader: FrameReader) -> AgentFrame:
    try:
        data = await asyncio.wait_for(reader.next(), HELLO_TIMEOUT)
    except asyncio.TimeoutError:
        raise BadFrame(f"no Hello within {HELLO_TIMEOUT:g} s") from None
    if data is None:
        raise BadFrame("the connection ended before a Hello")
    protocol = spoken_protocol(data)
    if protocol not in (None, PROTOCOL):
        raise BadFrame(
            f"this master speaks protocol {PROTOCOL} and the agent {protocol}: "
            "install the same version of resile on all nodes"
        )
    return decode_from_agent(data)


def _hello_of(frame: AgentFrame) -> Hello:
    if not isinstance(frame.body, Hello):
        raise BadFrame(f"the first frame must be a Hello, not {type(frame.body).__name__}")
    return frame.body


async def _finish(writer: asyncio.Task[None], peer: Peer) -> None:
    """Send the last messages, but not for long: the peer may not be reading."""
    await asyncio.wait([writer], timeout=REFUSAL_TIMEOUT)
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    peer.gone()
    peer.cut()
