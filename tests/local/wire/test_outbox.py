"""A peer that does not read: it is disconnected, its queue does not grow, others continue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from resile.wire.client import AGENT_PATH
from resile.wire.codec import encode_from_agent
from resile.wire.messages import FromAgent, Hello, Refused, Wait
from resile.wire.server import OUTBOX_LIMIT, AgentEndpoint, Peer
from tests.local.wire.pretend import hello

LONG = "x" * 16 * 1024


class Talker:
    """Sends many messages to every peer after its Hello."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.peers: list[Peer] = []
        self.gone: list[Peer] = []
        self.ended = asyncio.Event()

    def greeted(self, peer: Peer, _hello: Hello) -> None:
        self.peers.append(peer)
        for number in range(self.messages):
            peer.send(Wait(reason=f"{number} {LONG}"))

    def received(self, peer: Peer, _message: FromAgent) -> None:
        peer.send(Refused(reason="heard"))

    def closed(self, peer: Peer) -> None:
        self.gone.append(peer)
        self.ended.set()


@asynccontextmanager
async def serving(talker: Talker) -> AsyncIterator[str]:
    """The agents' endpoint alone, on loopback; yields its URL."""
    app = web.Application()
    app.router.add_get(AGENT_PATH, AgentEndpoint(talker).serve)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{AGENT_PATH}"
    finally:
        await runner.cleanup()


async def test_a_peer_that_lets_its_messages_lie_is_cut_off() -> None:
    talker = Talker(2 * OUTBOX_LIMIT)
    async with (
        serving(talker) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as socket,
    ):
        await socket.send_bytes(encode_from_agent(1, hello()))
        await asyncio.wait_for(talker.ended.wait(), 30)
        assert talker.gone == talker.peers


async def test_a_dismissed_peer_that_does_not_read_is_cut_off() -> None:
    talker = Talker(OUTBOX_LIMIT - 1)
    async with (
        serving(talker) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as socket,
    ):
        await socket.send_bytes(encode_from_agent(1, hello()))
        while not talker.peers:
            await asyncio.sleep(0.01)
        talker.peers[0].close()
        talker.peers[0].close()
        await asyncio.wait_for(talker.ended.wait(), 30)


async def test_a_peer_that_reads_gets_everything_before_it_is_dismissed() -> None:
    talker = Talker(OUTBOX_LIMIT - 1)
    async with (
        serving(talker) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as socket,
    ):
        await socket.send_bytes(encode_from_agent(1, hello()))
        first = await socket.receive()
        talker.peers[0].close()
        heard = [first, *[message async for message in socket]]
        assert len(heard) == OUTBOX_LIMIT - 1
        await asyncio.wait_for(talker.ended.wait(), 30)
